// Shared receive queues: SRQ, XRC SRQ and RMP commands on one kind of object.
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/srq.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

constexpr std::uint64_t kDoorbellRecordBytes = 4;
constexpr std::uint8_t kLogStrideUnit = 4;  // strides count in 16-byte units

// What the three contexts have in common.
struct Parameters {
  std::uint8_t log_entries = 0;
  std::uint8_t log_wqe_bytes = 0;
  QueueMemory memory;
  std::uint32_t pdn = 0;
  std::uint16_t limit = 0;
  RecordMemory doorbell_record;
  bool signature = false;
  bool reserved_lkey = false;
};

Refusal check(const Device& device, const Request& request, const Parameters& parameters) {
  if (parameters.signature) {
    return bad_parameter(Syndrome::kSrqSignature);
  }
  if (parameters.log_entries > device.profile.log_max_srq_sz) {
    return exceeds_limit(Syndrome::kSrqSize);
  }
  // A WQE is a next segment and at least one data pointer.
  if (parameters.log_wqe_bytes < kLogStrideUnit + 1 ||
      1u << parameters.log_wqe_bytes > device.profile.max_wqe_sz_rq_bytes) {
    return bad_parameter(Syndrome::kSrqStride);
  }
  if (parameters.reserved_lkey && request.header.uid != 0) {
    return bad_parameter(Syndrome::kQpReservedLkey);
  }
  if (parameters.limit > 1u << parameters.log_entries) {
    return bad_parameter(Syndrome::kSrqLimit);
  }
  return {};
}

Refusal create(Device& device, const Request& request, const Parameters& parameters, std::unique_ptr<Srq> srq) {
  if (const Refusal refusal = check(device, request, parameters)) {
    return refusal;
  }
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, parameters.pdn, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  srq->uid = request.header.uid;
  srq->pdn = parameters.pdn;
  srq->log_entries = parameters.log_entries;
  srq->wqe_bytes = 1u << parameters.log_wqe_bytes;
  srq->limit = parameters.limit;
  srq->reserved_lkey = parameters.reserved_lkey;
  if (const Refusal refusal = take_doorbell_record(device, request, parameters.doorbell_record, kDoorbellRecordBytes,
                                                   srq->doorbell_record, srq->record_umem)) {
    return refusal;
  }
  if (const Refusal refusal =
          take_queue_memory(device, request, parameters.memory, std::uint64_t{srq->wqe_bytes} << srq->log_entries,
                            srq->pages, srq->buffer_umem)) {
    return refusal;
  }
  Srq* const created = srq.get();
  if (!device.srqs.insert(srq, created->srqn)) {
    return no_resources();
  }
  ++pd->users;
  if (created->kind == SrqKind::kXrc) {
    ++device.xrcds.find(created->xrcd)->users;
    if (created->cq != nullptr) {
      ++created->cq->users;
    }
  }
  request.reply_number(created->srqn);
  return {};
}

Refusal find_srq(Device& device, const Request& request, SrqKind kind, Srq*& srq) {
  if (const Refusal refusal = find(request, device.srqs, request.number(), Syndrome::kNoSuchSrq, srq)) {
    return refusal;
  }
  return srq->kind == kind ? Refusal{} : bad_resource(Syndrome::kWrongSrqKind);
}

Refusal destroy(Device& device, const Request& request, SrqKind kind) {
  Srq* srq = nullptr;
  if (const Refusal refusal = find_srq(device, request, kind, srq)) {
    return refusal;
  }
  if (srq->users != 0) {
    return bad_resource_state(Syndrome::kSrqInUse);
  }
  --device.pds.find(srq->pdn)->users;
  if (kind == SrqKind::kXrc) {
    --device.xrcds.find(srq->xrcd)->users;
    if (srq->cq != nullptr) {
      --srq->cq->users;
    }
  }
  device.srqs.erase(srq->srqn);
  return {};
}

Refusal set_limit(Srq& srq, std::uint16_t limit) {
  if (limit > 1u << srq.log_entries) {
    return bad_parameter(Syndrome::kSrqLimit);
  }
  srq.limit = limit;
  return {};
}

Refusal arm(Device& device, const Request& request, SrqKind kind) {
  const auto in = request.as<prm::ArmSrqIn>();
  if (in.header.op_mod != prm::kArmSrq) {
    return bad_parameter(Syndrome::kUnknownModifier);
  }
  Srq* srq = nullptr;
  if (const Refusal refusal = find_srq(device, request, kind, srq)) {
    return refusal;
  }
  return set_limit(*srq, in.lwm);
}

std::uint8_t log2_of(std::uint32_t bytes) { return static_cast<std::uint8_t>(std::bit_width(bytes) - 1); }
std::uint8_t log_page_size(const Srq& srq) { return static_cast<std::uint8_t>(srq.pages.log_page_bytes - 12); }
std::uint8_t page_offset(const Srq& srq) {
  return static_cast<std::uint8_t>(srq.pages.first_offset_bytes >> (srq.pages.log_page_bytes - 6));
}

}  // namespace

Refusal create_srq(Device& device, const Request& request) {
  const prm::Srqc context = request.as<prm::CreateSrqIn>().srqc;
  if (context.cont_srq) {
    return bad_parameter(Syndrome::kSrqContainer);
  }
  return create(device, request,
                {.log_entries = context.log_srq_size,
                 .log_wqe_bytes = static_cast<std::uint8_t>(context.log_rq_stride + kLogStrideUnit),
                 .memory = {.log_page_size = context.log_page_size, .page_offset = context.page_offset},
                 .pdn = context.pd,
                 .limit = context.lwm,
                 .doorbell_record = {.address = context.dbr_addr},
                 .signature = context.wq_signature,
                 .reserved_lkey = context.rlky},
                std::make_unique<Srq>());
}

Refusal query_srq(Device& device, const Request& request) {
  Srq* srq = nullptr;
  if (const Refusal refusal = find_srq(device, request, SrqKind::kBasic, srq)) {
    return refusal;
  }
  prm::QuerySrqOut out;
  out.srqc.log_srq_size = srq->log_entries;
  out.srqc.log_rq_stride = static_cast<std::uint8_t>(log2_of(srq->wqe_bytes) - kLogStrideUnit);
  out.srqc.page_offset = page_offset(*srq);
  out.srqc.log_page_size = log_page_size(*srq);
  out.srqc.pd = srq->pdn;
  out.srqc.lwm = srq->limit;
  out.srqc.dbr_addr = srq->doorbell_record;
  request.reply(out);
  return {};
}

Refusal arm_rq(Device& device, const Request& request) { return arm(device, request, SrqKind::kBasic); }
Refusal destroy_srq(Device& device, const Request& request) { return destroy(device, request, SrqKind::kBasic); }

Refusal create_xrc_srq(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateXrcSrqIn>();
  const prm::XrcSrqc& context = in.xrc_srqc;
  if (context.cont_srq) {
    return bad_parameter(Syndrome::kSrqContainer);
  }
  if (context.basic_cyclic_rcv_wqe) {
    return bad_parameter(Syndrome::kSrqType);
  }
  auto srq = std::make_unique<Srq>();
  srq->kind = SrqKind::kXrc;
  srq->user_index = context.user_index;
  srq->xrcd = context.xrcd;
  // A user's SRQ may lie in the kernel's default domain and report to its CQ, as mlx5_ib creates plain ones.
  if (const Domain* const xrcd = device.xrcds.find(context.xrcd); xrcd == nullptr) {
    return bad_resource(Syndrome::kNoSuchXrcd);
  } else if (xrcd->uid != 0 && !request.may_touch(xrcd->uid)) {
    return bad_resource(Syndrome::kNotOwner);
  }
  srq->cq = device.cqs.find(context.cqn);
  if (srq->cq == nullptr) {
    return bad_resource(Syndrome::kNoSuchCq);
  }
  if (srq->cq->uid != 0 && !request.may_touch(srq->cq->uid)) {
    return bad_resource(Syndrome::kNotOwner);
  }
  return create(device, request,
                {.log_entries = context.log_xrc_srq_size,
                 .log_wqe_bytes = static_cast<std::uint8_t>(context.log_rq_stride + kLogStrideUnit),
                 .memory = {.log_page_size = context.log_page_size,
                            .page_offset = context.page_offset,
                            .in_umem = in.xrc_srq_umem_valid,
                            .umem_id = in.xrc_srq_umem_id,
                            .umem_offset = in.xrc_srq_umem_offset},
                 .pdn = context.pd,
                 .limit = context.lwm,
                 .doorbell_record = {.address = context.dbr_addr,
                                     .in_umem = context.dbr_umem_valid,
                                     .umem_id = context.dbr_umem_id},
                 .signature = context.wq_signature,
                 .reserved_lkey = context.rlky},
                std::move(srq));
}

Refusal query_xrc_srq(Device& device, const Request& request) {
  Srq* srq = nullptr;
  if (const Refusal refusal = find_srq(device, request, SrqKind::kXrc, srq)) {
    return refusal;
  }
  prm::QueryXrcSrqOut out;
  out.xrc_srqc.log_xrc_srq_size = srq->log_entries;
  out.xrc_srqc.log_rq_stride = static_cast<std::uint8_t>(log2_of(srq->wqe_bytes) - kLogStrideUnit);
  out.xrc_srqc.xrcd = srq->xrcd;
  out.xrc_srqc.page_offset = page_offset(*srq);
  out.xrc_srqc.cqn = srq->cq->cqn;
  out.xrc_srqc.log_page_size = log_page_size(*srq);
  out.xrc_srqc.user_index = srq->user_index;
  out.xrc_srqc.pd = srq->pdn;
  out.xrc_srqc.lwm = srq->limit;
  out.xrc_srqc.dbr_addr = srq->doorbell_record;
  request.reply(out);
  return {};
}

Refusal arm_xrc_srq(Device& device, const Request& request) { return arm(device, request, SrqKind::kXrc); }
Refusal destroy_xrc_srq(Device& device, const Request& request) { return destroy(device, request, SrqKind::kXrc); }

Refusal create_rmp(Device& device, const Request& request) {
  const prm::Rmpc context = request.as<prm::CreateRmpIn>().rmpc;
  const prm::Wq& wq = context.wq;
  if (context.state != prm::kRmpReady) {
    return bad_parameter(Syndrome::kRmpState);
  }
  const bool cyclic = wq.wq_type == prm::WqType::kCyclic;
  if ((wq.wq_type != prm::WqType::kLinkedList && !cyclic) || context.basic_cyclic_rcv_wqe) {
    return bad_parameter(Syndrome::kSrqType);
  }
  auto srq = std::make_unique<Srq>();
  srq->kind = SrqKind::kRmp;
  srq->cyclic = cyclic;
  return create(device, request,
                {.log_entries = wq.log_wq_sz,
                 .log_wqe_bytes = wq.log_wq_stride,
                 .memory = memory_of(wq),
                 .pdn = wq.pd,
                 .limit = wq.lwm,
                 .doorbell_record = record_of(wq),
                 .signature = wq.wq_signature,
                 .reserved_lkey = false},
                std::move(srq));
}

Refusal modify_rmp(Device& device, const Request& request) {
  const auto in = request.as<prm::ModifyRmpIn>();
  Srq* srq = nullptr;
  if (const Refusal refusal = find_srq(device, request, SrqKind::kRmp, srq)) {
    return refusal;
  }
  if (in.rmp_state != prm::kRmpReady || in.rmpc.state != prm::kRmpReady) {
    return bad_parameter(Syndrome::kRmpState);
  }
  if ((in.bitmask & ~prm::kRmpLwm) != 0) {
    return bad_parameter(Syndrome::kSrqFieldSelect);
  }
  return (in.bitmask & prm::kRmpLwm) != 0 ? set_limit(*srq, in.rmpc.wq.lwm) : Refusal{};
}

Refusal query_rmp(Device& device, const Request& request) {
  Srq* srq = nullptr;
  if (const Refusal refusal = find_srq(device, request, SrqKind::kRmp, srq)) {
    return refusal;
  }
  prm::QueryRmpOut out;
  out.rmpc.state = prm::kRmpReady;
  out.rmpc.wq.wq_type = srq->cyclic ? prm::WqType::kCyclic : prm::WqType::kLinkedList;
  out.rmpc.wq.pd = srq->pdn;
  out.rmpc.wq.lwm = srq->limit;
  out.rmpc.wq.page_offset = page_offset(*srq);
  out.rmpc.wq.dbr_addr = srq->doorbell_record;
  out.rmpc.wq.log_wq_stride = log2_of(srq->wqe_bytes);
  out.rmpc.wq.log_wq_pg_sz = log_page_size(*srq);
  out.rmpc.wq.log_wq_sz = srq->log_entries;
  request.reply(out);
  return {};
}

Refusal destroy_rmp(Device& device, const Request& request) { return destroy(device, request, SrqKind::kRmp); }

}  // namespace softhca::hca
