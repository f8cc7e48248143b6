// CREATE_QP, QUERY_QP, DESTROY_QP.
#include <memory>
#include <vector>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/qp.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::RqType;
using prm::ServiceType;

QpObject::QpObject() = default;
QpObject::~QpObject() = default;

namespace {

constexpr std::uint64_t kDoorbellRecordBytes = 8;
constexpr std::uint32_t kWqebbBytes = 64;

// What is refused by name because it is not there.
Refusal check_features(const Profile& profile, const Request& request, const prm::CreateQpIn& in) {
  const prm::Qpc& qpc = in.qpc;
  if (in.qpc_ext) {
    return bad_parameter(Syndrome::kQpExtension);
  }
  if (in.input_qpn != 0) {
    return bad_parameter(Syndrome::kQpInputNumber);
  }
  if (in.ece != 0) {
    return bad_parameter(Syndrome::kQpEce);
  }
  if (qpc.st != ServiceType::kRc && qpc.st != ServiceType::kUc && qpc.st != ServiceType::kUd &&
      qpc.st != ServiceType::kXrc && qpc.st != ServiceType::kDci) {
    return bad_parameter(Syndrome::kQpType);
  }
  if ((qpc.st == ServiceType::kXrc && !profile.xrc) || (qpc.st == ServiceType::kDci && !profile.dct)) {
    return bad_parameter(Syndrome::kQpType);
  }
  if (qpc.req_e2e_credit_mode != 0 && (qpc.st != ServiceType::kRc || !profile.packet_based_credit)) {
    return bad_parameter(Syndrome::kQpCreditMode);
  }
  if (qpc.wq_signature) {
    return bad_parameter(Syndrome::kQpSignature);
  }
  if (qpc.cd_master || qpc.cd_slave_send || qpc.cd_slave_receive) {
    return bad_parameter(Syndrome::kQpCrossChannel);
  }
  if (qpc.offload_type != 0) {
    return bad_parameter(Syndrome::kQpOffload);
  }
  if (qpc.rlky && request.header.uid != 0) {
    return bad_parameter(Syndrome::kQpReservedLkey);
  }
  return {};
}

// A QP whose receives, if it has any, come through other objects: mlx5_ib names those of its own for them.
bool receives_elsewhere(const prm::Qpc& qpc) { return qpc.st == ServiceType::kXrc || qpc.st == ServiceType::kDci; }

Refusal check_sizes(const Profile& profile, const prm::Qpc& qpc) {
  const bool has_rq = qpc.rq_type == RqType::kRegular;
  if (has_rq && receives_elsewhere(qpc)) {
    return bad_parameter(Syndrome::kQpRqType);
  }
  if (!has_rq && qpc.rq_type != RqType::kSrq && qpc.rq_type != RqType::kZeroLength) {
    return bad_parameter(Syndrome::kQpRqType);
  }
  if (qpc.no_sq && qpc.rq_type == RqType::kZeroLength) {
    return bad_parameter(Syndrome::kQpNoQueue);
  }
  if (qpc.log_sq_size > profile.log_max_qp_sz) {
    return exceeds_limit(Syndrome::kQpSqSize);
  }
  if (qpc.log_rq_size > profile.log_max_qp_sz) {
    return exceeds_limit(Syndrome::kQpRqSize);
  }
  if (has_rq && 16u << qpc.log_rq_stride > profile.max_wqe_sz_rq_bytes) {
    return exceeds_limit(Syndrome::kQpRqStride);
  }
  if (qpc.log_num_dci_stream_channels > profile.log_max_dci_streams ||
      qpc.log_num_dci_errored_streams > profile.log_max_dci_errored_streams) {
    return exceeds_limit(Syndrome::kDciStreams);
  }
  if (qpc.log_msg_max > profile.log_max_message_bytes) {
    return exceeds_limit(Syndrome::kQpMessageSize);
  }
  return {};
}

// Bytes of data that a CQE of the queue may carry; false for an unknown code or one that the CQ's entries do not fit.
bool scatter_bytes(std::uint8_t code, std::uint8_t code32, std::uint8_t code64, const Cq* cq, std::uint32_t& bytes) {
  bytes = code == code32 ? 32 : code == code64 ? 64 : 0;
  return (code == 0 || bytes != 0) && (bytes != 64 || (cq != nullptr && cq->cqe_bytes == 128));
}

Refusal find_objects(Device& device, const Request& request, const prm::Qpc& qpc, QpObject& qp) {
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, qpc.pd, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  if (const Refusal refusal = find(request, device.cqs, qpc.cqn_snd, Syndrome::kNoSuchCq, qp.send_cq)) {
    return refusal;
  }
  qp.recv_cq = device.cqs.find(qpc.cqn_rcv);
  if (!receives_elsewhere(qpc) || qp.recv_cq == nullptr || qp.recv_cq->uid != 0) {
    if (const Refusal refusal = find(request, device.cqs, qpc.cqn_rcv, Syndrome::kNoSuchCq, qp.recv_cq)) {
      return refusal;
    }
  }
  if (qpc.st == ServiceType::kXrc) {  // its messages name their SRQs
    const Domain* const xrcd = device.xrcds.find(qpc.xrcd);
    if (xrcd == nullptr) {
      return bad_resource(Syndrome::kNoSuchXrcd);
    }
    if (xrcd->uid != 0 && !request.may_touch(xrcd->uid)) {
      return bad_resource(Syndrome::kNotOwner);
    }
  } else if (qpc.rq_type == RqType::kSrq && !receives_elsewhere(qpc)) {
    if (const Refusal refusal = find(request, device.srqs, qpc.srqn_rmpn_xrqn, Syndrome::kNoSuchSrq, qp.srq)) {
      return refusal;
    }
  }
  if (!qpc.no_sq) {
    const UarPage* const uar = device.uars.find(qpc.uar_page);
    if (uar == nullptr) {
      return bad_resource(Syndrome::kNoSuchUar);
    }
    if (!request.may_touch(uar->uid)) {
      return bad_resource(Syndrome::kNotOwner);
    }
  }
  return {};
}

Refusal build(Device& device, const Request& request, const prm::CreateQpIn& in, QpObject& qp) {
  const prm::Qpc& qpc = in.qpc;
  if (const Refusal refusal = find_objects(device, request, qpc, qp)) {
    return refusal;
  }
  if (!scatter_bytes(qpc.cs_res, prm::kScatterResponder32, prm::kScatterResponder64, qp.recv_cq,
                     qp.inline_scatter_responder_bytes) ||
      !scatter_bytes(qpc.cs_req, prm::kScatterRequester32, prm::kScatterRequester64, qp.send_cq,
                     qp.inline_scatter_requester_bytes)) {
    return bad_parameter(Syndrome::kQpScatterCqe);
  }
  qp.uid = request.header.uid;
  qp.user_index = qpc.user_index;
  qp.type = static_cast<QpType>(qpc.st);
  qp.pdn = qpc.pd;
  qp.xrcd = qpc.xrcd;
  qp.max_errored_streams =
      qpc.st == ServiceType::kDci && qpc.log_num_dci_stream_channels != 0 ? 1u << qpc.log_num_dci_errored_streams : 0;
  qp.uar = qpc.uar_page;
  qp.has_sq = !qpc.no_sq;
  qp.has_rq = qpc.rq_type == RqType::kRegular;
  qp.log_rq_entries = qpc.log_rq_size;
  qp.rq_wqe_bytes = 16u << qpc.log_rq_stride;
  qp.log_sq_wqebbs = qpc.log_sq_size;
  qp.reserved_lkey = qpc.rlky;
  qp.packet_credits = qpc.req_e2e_credit_mode != 0;
  qp.blocks_own_multicast = qpc.block_lb_mc;
  qp.sq_position = qp.has_rq ? std::uint64_t{qp.rq_wqe_bytes} << qp.log_rq_entries : 0;
  const std::uint64_t sq_bytes = qp.has_sq ? std::uint64_t{kWqebbBytes} << qp.log_sq_wqebbs : 0;
  if (const Refusal refusal = take_doorbell_record(
          device, request, {.address = qpc.dbr_addr, .in_umem = qpc.dbr_umem_valid, .umem_id = qpc.dbr_umem_id},
          kDoorbellRecordBytes, qp.doorbell_record, qp.record_umem)) {
    return refusal;
  }
  return take_queue_memory(device, request,
                           {.log_page_size = qpc.log_page_size,
                            .page_offset = qpc.page_offset,
                            .in_umem = in.wq_umem_valid,
                            .umem_id = in.wq_umem_id,
                            .umem_offset = in.wq_umem_offset},
                           qp.sq_position + sq_bytes, qp.pages, qp.buffer_umem);
}

void count_uses(Device& device, QpObject& qp, int change) {
  const auto by = static_cast<std::uint32_t>(change);
  device.pds.find(qp.pdn)->users += by;
  qp.send_cq->users += by;
  qp.recv_cq->users += by;
  if (qp.srq != nullptr) {
    qp.srq->users += by;
  }
  if (qp.type == QpType::kXrc) {
    device.xrcds.find(qp.xrcd)->users += by;
  }
}

}  // namespace

Refusal create_qp(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateQpIn>();
  if (const Refusal refusal = check_features(device.profile, request, in)) {
    return refusal;
  }
  if (const Refusal refusal = check_sizes(device.profile, in.qpc)) {
    return refusal;
  }
  auto qp = std::make_unique<QpObject>();
  if (const Refusal refusal = build(device, request, in, *qp)) {
    return refusal;
  }
  qp->context = std::make_unique<prm::Qpc>(in.qpc);
  QpObject* const created = qp.get();
  if (!device.qps.insert(qp, created->qpn)) {
    return no_resources();
  }
  count_uses(device, *created, 1);
  if (created->has_sq) {
    device.uars.find(created->uar)->qps.push_back(created);
  }
  request.reply_number(created->qpn);
  return {};
}

Refusal find_qp(Device& device, const Request& request, QpObject*& qp) {
  if (const Refusal refusal = find(request, device.qps, request.number(), Syndrome::kNoSuchQp, qp)) {
    return refusal;
  }
  return qp->type == QpType::kDct   ? bad_resource(Syndrome::kQpIsDct)
         : qp->type == QpType::kRaw ? bad_resource(Syndrome::kWrongQueueKind)
                                    : Refusal{};
}

Refusal query_qp(Device& device, const Request& request) {
  QpObject* qp = nullptr;
  if (const Refusal refusal = find_qp(device, request, qp)) {
    return refusal;
  }
  prm::QueryQpOut out;
  out.qpc = *qp->context;
  out.qpc.state = static_cast<prm::QpcState>(qp->state);
  out.qpc.hw_sq_wqebb_counter = qp->sq_consumed_wqebbs;
  out.qpc.hw_rq_counter = qp->rq_consumed;
  request.reply(out);
  return {};
}

Refusal destroy_qp(Device& device, const Request& request) {
  QpObject* qp = nullptr;
  if (const Refusal refusal = find_qp(device, request, qp)) {
    return refusal;
  }
  if (qp->multicast_groups != 0) {
    return bad_resource_state(Syndrome::kQpInMulticastGroup);
  }
  device.transport.acknowledge(*qp);
  device.transport.forget(*qp);
  if (qp->has_sq) {
    std::erase(device.uars.find(qp->uar)->qps, qp);
  }
  count_uses(device, *qp, -1);
  device.qps.erase(qp->qpn);
  return {};
}

}  // namespace softhca::hca
