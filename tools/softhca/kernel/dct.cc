#include "tools/softhca/kernel/dct.h"

#include <rdma/ib_user_ioctl_verbs.h>

#include <cerrno>

#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca::kernel {
namespace {

namespace prm = umlx5::wqe::prm;

int to_init(Qp& dct, const ib_uverbs_modify_qp& asked) {
  if (asked.attr_mask != (kAttrState | kAttrAccess | kAttrPkeyIndex | kAttrPort) || asked.port_num != 1 ||
      asked.pkey_index != 0) {
    return EINVAL;
  }
  dct.dctc.rre = (asked.qp_access_flags & IB_UVERBS_ACCESS_REMOTE_READ) != 0;
  dct.dctc.rwe = (asked.qp_access_flags & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0;
  dct.dctc.rae = (asked.qp_access_flags & IB_UVERBS_ACCESS_REMOTE_ATOMIC) != 0;
  dct.dctc.atomic_mode = dct.dctc.rae ? prm::kAtomicModeIb : 0;
  dct.dctc.pkey_index = asked.pkey_index;
  dct.dctc.port = dct.common->port = asked.port_num;
  dct.common->access = asked.qp_access_flags;
  dct.common->state = State::kInit;
  return 0;
}

int to_rtr(Request& request, Qp& dct, const ib_uverbs_modify_qp& asked, std::uint32_t& ece) {
  if (asked.attr_mask != (kAttrState | kAttrMinRnrTimer | kAttrAv | kAttrPathMtu) || asked.path_mtu < 1 ||
      asked.path_mtu > 5 || asked.dest.is_global == 0 || !request.device().gid(asked.dest.sgid_index)) {
    return EINVAL;
  }
  dct.dctc.mtu = asked.path_mtu;
  dct.dctc.my_addr_index = asked.dest.sgid_index;
  dct.dctc.hop_limit = asked.dest.hop_limit;
  dct.dctc.tclass = asked.dest.traffic_class;
  dct.dctc.flow_label = asked.dest.flow_label & 0xfffff;
  dct.dctc.min_rnr_nak = asked.min_rnr_timer & 31;
  dct.dctc.ece = ece;
  dct.dctc.dp_ordering_1 = dct.dctc.dp_ordering_force = dct.out_of_order;
  const auto out = command<prm::ObjectOut>(
      request.firmware(),
      prm::CreateDctIn{.header = {.opcode = prm::Opcode::kCreateDct, .uid = dct.uid}, .dctc = dct.dctc});
  if (!out) {
    return out.error();
  }
  ece = out->ece;
  dct.number = out->number;
  request.device().events().add(EventSource::kQp, dct.number, dct.dct_events);
  dct.common->state = State::kRtr;
  return 0;
}

}  // namespace

int modify_dct(Request& request, Qp& dct, const ib_uverbs_modify_qp& asked, std::uint32_t& ece, std::uint32_t& dctn) {
  if ((asked.attr_mask & kAttrState) == 0) {
    return EINVAL;
  }
  const State to = State{asked.qp_state};
  const int error = dct.common->state == State::kReset && to == State::kInit ? to_init(dct, asked)
                    : dct.common->state == State::kInit && to == State::kRtr ? to_rtr(request, dct, asked, ece)
                                                                             : EINVAL;
  dctn = dct.number;
  return error;
}

int query_dct(Request& request, Qp& dct, ib_uverbs_query_qp_resp& response) {
  if (dct.common->state != State::kRtr) {
    return EINVAL;
  }
  const auto out = command<prm::QueryDctOut>(
      request.firmware(),
      prm::ObjectIn{.header = {.opcode = prm::Opcode::kQueryDct, .uid = dct.uid}, .number = dct.number});
  if (!out) {
    return out.error();
  }
  response.qp_state = response.cur_qp_state = static_cast<std::uint8_t>(State::kRtr);
  response.qp_access_flags = dct.common->access;
  response.port_num = out->dctc.port;
  response.min_rnr_timer = out->dctc.min_rnr_nak;
  response.path_mtu = out->dctc.mtu;
  response.pkey_index = out->dctc.pkey_index;
  response.dest.traffic_class = out->dctc.tclass;
  response.dest.sgid_index = out->dctc.my_addr_index;
  response.dest.hop_limit = out->dctc.hop_limit;
  response.dest.is_global = 1;
  response.dest.port_num = out->dctc.port;
  return 0;
}

int release_dct(RdmaDevice& device, Qp& dct) {
  if (dct.number == 0) {
    return 0;
  }
  // The device drains it at once: what it has received is acknowledged, and nothing more comes.
  int error = command_on_object(device.firmware(), prm::Opcode::kDrainDct, dct.uid, dct.number);
  error = error != 0 ? error : command_on_object(device.firmware(), prm::Opcode::kDestroyDct, dct.uid, dct.number);
  if (error == 0) {
    dct.reported = device.events().remove(EventSource::kQp, dct.number);
  }
  return error;
}

}  // namespace softhca::kernel
