// CREATE_DCT, DRAIN_DCT, QUERY_DCT, DESTROY_DCT. A DCT is a QP that only receives, created in the state RTR.
#include <memory>

#include "tools/softhca/hca/command.h"
#include "wqe/eqe.h"
#include "wqe/prm/dct.h"
#include "wqe/prm/qp.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;

namespace {

Refusal check(const Device& device, const Request& request, const prm::Dctc& dctc) {
  if (!device.profile.dct) {
    return bad_parameter(Syndrome::kQpType);
  }
  if (dctc.mtu < 1 || dctc.mtu > device.profile.log_port_mtu) {
    return bad_parameter(Syndrome::kQpMtu);
  }
  if (dctc.port != 1) {
    return bad_parameter(Syndrome::kQpPort);
  }
  if (dctc.pkey_index >= device.profile.pkey_table_entries) {
    return bad_parameter(Syndrome::kQpPkeyIndex);
  }
  if (dctc.my_addr_index >= device.gids.size()) {
    return bad_parameter(Syndrome::kQpGidIndex);
  }
  if (dctc.rae && dctc.atomic_mode == 0) {
    return bad_parameter(Syndrome::kQpAtomicMode);
  }
  if (dctc.ece != 0) {
    return bad_parameter(Syndrome::kQpEce);
  }
  if (dctc.cs_res != 0 && dctc.cs_res != prm::kScatterResponder32 && dctc.cs_res != prm::kScatterResponder64) {
    return bad_parameter(Syndrome::kQpScatterCqe);
  }
  if (dctc.dp_ordering_1 && !device.profile.out_of_order) {
    return bad_parameter(Syndrome::kQpOrdering);
  }
  return dctc.rlky && request.header.uid != 0 ? bad_parameter(Syndrome::kQpReservedLkey) : Refusal{};
}

Refusal find_objects(Device& device, const Request& request, const prm::Dctc& dctc, Domain*& pd, QpObject& dct) {
  Refusal refusal = find(request, device.pds, dctc.pd, Syndrome::kNoSuchPd, pd);
  refusal = refusal ? refusal : find(request, device.cqs, dctc.cqn, Syndrome::kNoSuchCq, dct.recv_cq);
  refusal = refusal ? refusal : find(request, device.srqs, dctc.srqn_xrqn, Syndrome::kNoSuchSrq, dct.srq);
  if (refusal) {
    return refusal;
  }
  const bool too_small = dctc.cs_res == prm::kScatterResponder64 && dct.recv_cq->cqe_bytes != 128;
  return too_small ? bad_parameter(Syndrome::kQpScatterCqe) : Refusal{};
}

void take(const Device& device, const Request& request, const prm::Dctc& dctc, QpObject& dct) {
  dct.uid = request.header.uid;
  dct.user_index = dctc.user_index;
  dct.type = QpType::kDct;
  dct.state = QpState::kRtr;
  dct.pdn = dctc.pd;
  dct.has_sq = dct.has_rq = false;
  dct.path.log_mtu = dctc.mtu;
  dct.path.sgid_index = dctc.my_addr_index;
  dct.path.hop_limit = dctc.hop_limit;
  dct.path.route.traffic_class = dctc.tclass;
  dct.pkey_index = dctc.pkey_index;
  dct.min_rnr_timer = dctc.min_rnr_nak;
  dct.max_target_rd_atomic = 1u << device.profile.log_max_ra_res_qp;
  dct.remote_read = dctc.rre;
  dct.remote_write = dctc.rwe;
  dct.remote_atomic = dctc.rae;
  dct.reserved_lkey = dctc.rlky;
  dct.out_of_order = dctc.dp_ordering_1 && dctc.dp_ordering_force;
  dct.inline_scatter_responder_bytes = dctc.cs_res == prm::kScatterResponder32   ? 32
                                       : dctc.cs_res == prm::kScatterResponder64 ? 64
                                                                                 : 0;
  dct.dc_access_key = dctc.dc_access_key;
}

Refusal find_dct(Device& device, const Request& request, QpObject*& dct) {
  if (const Refusal refusal = find(request, device.qps, request.number(), Syndrome::kNoSuchQp, dct)) {
    return refusal;
  }
  return dct->type == QpType::kDct ? Refusal{} : bad_resource(Syndrome::kNoSuchQp);
}

}  // namespace

Refusal create_dct(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateDctIn>();
  if (const Refusal refusal = check(device, request, in.dctc)) {
    return refusal;
  }
  auto dct = std::make_unique<QpObject>();
  Domain* pd = nullptr;
  if (const Refusal refusal = find_objects(device, request, in.dctc, pd, *dct)) {
    return refusal;
  }
  take(device, request, in.dctc, *dct);
  dct->context = std::make_unique<prm::Qpc>();
  QpObject* const created = dct.get();
  if (!device.qps.insert(dct, created->qpn)) {
    return no_resources();
  }
  ++pd->users;
  ++created->recv_cq->users;
  ++created->srq->users;
  request.reply_number(created->qpn);
  return {};
}

Refusal drain_dct(Device& device, const Request& request) {
  QpObject* dct = nullptr;
  if (const Refusal refusal = find_dct(device, request, dct)) {
    return refusal;
  }
  if (dct->state != QpState::kErr) {
    const QpState from = dct->state;
    dct->state = QpState::kErr;
    device.transport.forget(*dct);
    device.transport.state_changed(*dct, from);
  }
  post_async_event(device, umlx5::wqe::EventType::kDctDrained, dct->qpn, 0);
  return {};
}

Refusal query_dct(Device& device, const Request& request) {
  QpObject* dct = nullptr;
  if (const Refusal refusal = find_dct(device, request, dct)) {
    return refusal;
  }
  prm::QueryDctOut out;
  out.dctc.state = dct->state == QpState::kRtr ? prm::kDctActive : prm::kDctDrained;
  out.dctc.user_index = dct->user_index;
  out.dctc.cqn = dct->recv_cq->cqn;
  out.dctc.rre = dct->remote_read;
  out.dctc.rwe = dct->remote_write;
  out.dctc.rae = dct->remote_atomic;
  out.dctc.atomic_mode = dct->remote_atomic ? prm::kAtomicModeIb : 0;
  out.dctc.dp_ordering_1 = out.dctc.dp_ordering_force = dct->out_of_order;
  out.dctc.min_rnr_nak = dct->min_rnr_timer;
  out.dctc.srqn_xrqn = dct->srq->srqn;
  out.dctc.pd = dct->pdn;
  out.dctc.tclass = dct->path.route.traffic_class;
  out.dctc.dc_access_key = dct->dc_access_key;
  out.dctc.mtu = dct->path.log_mtu;
  out.dctc.port = 1;
  out.dctc.pkey_index = dct->pkey_index;
  out.dctc.my_addr_index = dct->path.sgid_index;
  out.dctc.hop_limit = dct->path.hop_limit;
  out.dctc.dc_access_key_violation_count = dct->dc_key_violations;
  request.reply(out);
  return {};
}

// Not before it is drained, as software must wait for that.
Refusal destroy_dct(Device& device, const Request& request) {
  QpObject* dct = nullptr;
  if (const Refusal refusal = find_dct(device, request, dct)) {
    return refusal;
  }
  if (dct->state == QpState::kRtr) {
    return bad_resource_state(Syndrome::kDctNotDrained);
  }
  device.transport.forget(*dct);
  --device.pds.find(dct->pdn)->users;
  --dct->recv_cq->users;
  --dct->srq->users;
  device.qps.erase(dct->qpn);
  return {};
}

}  // namespace softhca::hca
