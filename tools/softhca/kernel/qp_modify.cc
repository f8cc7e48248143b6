// Changing a queue pair's state and attributes.
#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "tools/softhca/kernel/dct.h"
#include "tools/softhca/kernel/log.h"
#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "uapi/kernel_additions.h"
#include "wqe/prm/qp.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint32_t kPsnMask = 0xffffff;
constexpr std::uint8_t kDatagramMtu = 5, kDatagramLogMessage = 12, kLogAckRequestFrequency = 3;
constexpr std::uint16_t kFirstSourcePort = 0xc000;

// The command of a change of state, none if the device has no such change.
std::optional<prm::Opcode> opcode_of(State from, State to) {
  struct Change {
    State from, to;
    prm::Opcode opcode;
  };
  static constexpr Change kChanges[] = {
      {State::kReset, State::kInit, prm::Opcode::kRst2InitQp}, {State::kInit, State::kInit, prm::Opcode::kInit2InitQp},
      {State::kInit, State::kRtr, prm::Opcode::kInit2RtrQp},   {State::kRtr, State::kRts, prm::Opcode::kRtr2RtsQp},
      {State::kRts, State::kRts, prm::Opcode::kRts2RtsQp},     {State::kSqd, State::kRts, prm::Opcode::kSqd2RtsQp},
      {State::kSqe, State::kRts, prm::Opcode::kSqerr2RtsQp}};
  if (to == State::kReset) {
    return prm::Opcode::kToRstQp;
  }
  if (to == State::kErr) {
    return prm::Opcode::kToErrQp;
  }
  for (const Change& change : kChanges) {
    if (change.from == from && change.to == to) {
      return change.opcode;
    }
  }
  return std::nullopt;
}

std::uint32_t optional_parameters_of(std::uint32_t mask) {
  struct Meaning {
    std::uint32_t attribute, parameters;
  };
  constexpr std::uint32_t kRights = prm::kOptRre | prm::kOptRwe | prm::kOptRae;
  static constexpr Meaning kMeanings[] = {{kAttrAccess, kRights},
                                          {kAttrPkeyIndex, prm::kOptPkeyIndex},
                                          {kAttrPort, prm::kOptPrimaryPort},
                                          {kAttrQkey, prm::kOptQkey},
                                          {kAttrAv, prm::kOptPrimaryPath | prm::kOptPrimaryPort},
                                          {kAttrTimeout, prm::kOptAckTimeout},
                                          {kAttrRetryCount, prm::kOptRetryCount},
                                          {kAttrRnrRetry, prm::kOptRnrRetry},
                                          {kAttrMaxRdAtomic, prm::kOptSraMax},
                                          {kAttrAltPath, prm::kOptAlternatePath},
                                          {kAttrMinRnrTimer, prm::kOptRnrTimeout},
                                          {kAttrMaxDestRdAtomic, prm::kOptRraMax | kRights},
                                          {kAttrPathMigState, prm::kOptPmState}};
  std::uint32_t parameters = 0;
  for (const Meaning& meaning : kMeanings) {
    parameters |= (mask & meaning.attribute) != 0 ? meaning.parameters : 0;
  }
  return parameters;
}

// What each change may carry besides its required fields, by transport.
std::uint32_t allowed_parameters(State from, State to, std::uint8_t qp_type) {
  const bool uc = qp_type == IB_UVERBS_QPT_UC;
  const bool rc = !uc && qp_type != IB_UVERBS_QPT_UD;  // and XRC
  constexpr std::uint32_t kRights = prm::kOptRre | prm::kOptRwe | prm::kOptRae;
  if (from == State::kInit && to == State::kInit) {
    return prm::kOptPkeyIndex | prm::kOptPrimaryPort | (rc ? kRights : uc ? prm::kOptRwe : prm::kOptQkey);
  }
  if (from == State::kInit && to == State::kRtr) {
    return prm::kOptPkeyIndex | (rc   ? kRights | prm::kOptAlternatePath
                                 : uc ? prm::kOptRwe | prm::kOptAlternatePath
                                      : std::uint32_t{prm::kOptQkey});
  }
  if (to == State::kRts && (from == State::kRtr || from == State::kRts)) {
    constexpr std::uint32_t kConnected = prm::kOptAlternatePath | prm::kOptPmState;
    return rc   ? kConnected | kRights | prm::kOptRnrTimeout
           : uc ? kConnected | prm::kOptRwe
                : std::uint32_t{prm::kOptQkey};
  }
  if (to == State::kRts) {
    return rc ? kRights | prm::kOptRnrTimeout : uc ? prm::kOptRwe : std::uint32_t{prm::kOptQkey};
  }
  return 0;
}

// The RoCE path of an address.
std::expected<prm::AddressPath, int> path_of(Request& request, const ib_uverbs_qp_dest& dest, std::uint32_t seed) {
  Gid destination{};
  std::memcpy(destination.data(), dest.dgid, destination.size());
  if (dest.is_global == 0 || !request.device().gid(dest.sgid_index)) {
    return std::unexpected(EINVAL);
  }
  const auto mac = mac_of_gid(destination);
  if (!mac) {
    return std::unexpected(ENETUNREACH);
  }
  prm::AddressPath path{};
  path.grh = true;
  path.src_addr_index = dest.sgid_index;
  path.hop_limit = dest.hop_limit;
  path.tclass = dest.traffic_class;
  path.flow_label = dest.flow_label & 0xfffff;
  path.rgid_rip = destination;
  path.rmac = *mac;
  path.dscp = dest.traffic_class >> 2;
  path.eth_prio = dest.sl & 7;
  // A flow's packets keep to one source port; the flow label names the flow if there is one. RoCE v1 has no ports.
  if (!RdmaDevice::is_roce_v1(dest.sgid_index)) {
    const std::uint32_t entropy = path.flow_label != 0 ? path.flow_label : seed * 0x9e3779b1u >> 12;
    path.udp_sport = static_cast<std::uint16_t>(kFirstSourcePort | ((entropy ^ entropy >> 14) & 0x3fff));
  }
  path.vhca_port_num = dest.port_num;
  return path;
}

// Checks of ib_uverbs, in its order.
int check_core(const Qp& qp, const ib_uverbs_modify_qp& m) {
  const std::uint32_t mask = m.attr_mask;
  const auto bad_port = [](std::uint8_t port) { return port != 1; };
  if ((mask & kAttrPort) != 0 && bad_port(m.port_num)) {
    return EINVAL;
  }
  if ((mask & kAttrAv) != 0) {
    const bool to_rtr = (mask & kAttrState) != 0 && m.qp_state == static_cast<std::uint8_t>(State::kRtr);
    if (bad_port(m.dest.port_num) || (to_rtr && m.dest.port_num != qp.common->port)) {
      return EINVAL;
    }
  }
  constexpr auto kLast = static_cast<std::uint8_t>(State::kErr);
  if (((mask & kAttrAltPath) != 0 && (bad_port(m.alt_port_num) || bad_port(m.alt_dest.port_num))) ||
      ((mask & kAttrCurrentState) != 0 && m.cur_qp_state > kLast) || ((mask & kAttrState) != 0 && m.qp_state > kLast)) {
    return EINVAL;
  }
  return 0;
}

// Checks of mlx5_ib.
int check_driver(Request& request, const Qp& qp, const ib_uverbs_modify_qp& m, State from, State to) {
  const auto& caps = request.device().caps();
  const std::uint32_t mask = m.attr_mask;
  if (!transition_is_ok(from, to, qp.qp_type, mask) || ((mask & kAttrPkeyIndex) != 0 && m.pkey_index != 0) ||
      ((mask & kAttrMaxRdAtomic) != 0 && m.max_rd_atomic > 1u << caps.log_max_ra_res_qp) ||
      ((mask & kAttrMaxDestRdAtomic) != 0 && m.max_dest_rd_atomic > 1u << caps.log_max_ra_req_qp) ||
      ((mask & kAttrPathMtu) != 0 && (m.path_mtu < 1 || m.path_mtu > 5))) {
    return EINVAL;
  }
  return 0;
}

std::uint8_t log_of(std::uint8_t count) {
  return count == 0 ? 0 : static_cast<std::uint8_t>(std::countr_zero(std::bit_ceil(std::uint32_t{count})));
}

// Remote rights: without reads and atomics outstanding, a responder only takes writes.
void set_rights(prm::Qpc& qpc, const Qp& qp, const ib_uverbs_modify_qp& m) {
  const std::uint8_t reads =
      (m.attr_mask & kAttrMaxDestRdAtomic) != 0 ? m.max_dest_rd_atomic : qp.common->max_dest_rd_atomic;
  std::uint32_t access = (m.attr_mask & kAttrAccess) != 0 ? m.qp_access_flags : qp.common->access;
  if (reads == 0) {
    access &= IB_UVERBS_ACCESS_REMOTE_WRITE;
  }
  qpc.rre = (access & IB_UVERBS_ACCESS_REMOTE_READ) != 0;
  qpc.rwe = (access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0;
  qpc.rae = (access & IB_UVERBS_ACCESS_REMOTE_ATOMIC) != 0;
  qpc.atomic_mode = qpc.rae ? prm::kAtomicModeIb : 0;
}

std::expected<prm::Qpc, int> context_of(Request& request, const Qp& qp, const ib_uverbs_modify_qp& m) {
  const std::uint32_t mask = m.attr_mask;
  prm::Qpc qpc{.pm_state = prm::kPathMigrated};
  qpc.st = service_of(qp.qp_type);
  if (qp.qp_type == IB_UVERBS_QPT_UD) {
    qpc.mtu = kDatagramMtu;
    qpc.log_msg_max = kDatagramLogMessage;
  } else if ((mask & kAttrPathMtu) != 0) {
    qpc.mtu = m.path_mtu;
    qpc.log_msg_max = request.device().caps().log_max_msg;
  }
  if ((mask & kAttrAv) != 0) {
    const auto path = path_of(request, m.dest, qp.number ^ m.dest_qp_num << 8);
    if (!path) {
      return std::unexpected(path.error());
    }
    qpc.primary_address_path = *path;
  }
  if ((mask & kAttrAltPath) != 0) {
    const auto path = path_of(request, m.alt_dest, qp.number);
    if (!path) {
      return std::unexpected(path.error());
    }
    qpc.secondary_address_path = *path;
    qpc.secondary_address_path.pkey_index = m.alt_pkey_index;
    qpc.secondary_address_path.ack_timeout = m.alt_timeout & 31;
  }
  if ((mask & (kAttrAccess | kAttrMaxDestRdAtomic)) != 0) {
    set_rights(qpc, qp, m);
  }
  qpc.dp_ordering_1 = qpc.dp_ordering_force =
      qp.out_of_order && (mask & kAttrState) != 0 && m.qp_state == static_cast<std::uint8_t>(State::kRtr);
  qpc.pd = qp.pdn;
  qpc.cqn_snd = qp.send_cqn;
  qpc.cqn_rcv = qp.receive_cqn;
  qpc.dbr_addr = qp.doorbell_record;
  qpc.log_ack_req_freq = kLogAckRequestFrequency;
  qpc.remote_qpn = (mask & kAttrDestQpn) != 0 ? m.dest_qp_num : 0;
  qpc.primary_address_path.pkey_index = (mask & kAttrPkeyIndex) != 0 ? m.pkey_index : 0;
  qpc.primary_address_path.ack_timeout = (mask & kAttrTimeout) != 0 ? m.timeout & 31 : 0;
  qpc.primary_address_path.vhca_port_num = (mask & kAttrPort) != 0 ? m.port_num : qp.common->port;
  qpc.rnr_retry = (mask & kAttrRnrRetry) != 0 ? m.rnr_retry & 7 : 0;
  qpc.retry_count = (mask & kAttrRetryCount) != 0 ? m.retry_cnt & 7 : 0;
  qpc.log_sra_max = (mask & kAttrMaxRdAtomic) != 0 ? log_of(m.max_rd_atomic) : 0;
  qpc.log_rra_max = (mask & kAttrMaxDestRdAtomic) != 0 ? log_of(m.max_dest_rd_atomic) : 0;
  qpc.next_send_psn = (mask & kAttrSqPsn) != 0 ? m.sq_psn & kPsnMask : 0;
  qpc.next_rcv_psn = (mask & kAttrRqPsn) != 0 ? m.rq_psn & kPsnMask : 0;
  qpc.min_rnr_nak = (mask & kAttrMinRnrTimer) != 0 ? m.min_rnr_timer & 31 : 0;
  qpc.q_key = (mask & kAttrQkey) != 0 ? m.qkey : 0;
  return qpc;
}

void remember(Qp& qp, const ib_uverbs_modify_qp& m, State to) {
  qp.common->state = to;
  qp.common->access = (m.attr_mask & kAttrAccess) != 0 ? m.qp_access_flags : qp.common->access;
  qp.common->max_dest_rd_atomic =
      (m.attr_mask & kAttrMaxDestRdAtomic) != 0 ? m.max_dest_rd_atomic : qp.common->max_dest_rd_atomic;
  qp.common->port = (m.attr_mask & kAttrPort) != 0 ? m.port_num : qp.common->port;
}

int modify_raw(Request& request, Qp& qp, const ib_uverbs_modify_qp& m, State from, State to) {
  if (!opcode_of(from, to)) {
    return EINVAL;
  }
  if (const int error = modify_raw_queues(request.firmware(), qp.uid, qp.raw, to); error != 0) {
    return error;
  }
  remember(qp, m, to);
  return 0;
}

// Receives complete, and data is placed, in any order from RTR on.
bool may_reorder(const Capabilities& caps, std::uint8_t qp_type) {
  switch (qp_type) {
    case IB_UVERBS_QPT_RC:
      return caps.ooo_rc;
    case IB_UVERBS_QPT_UC:
      return caps.ooo_uc;
    case IB_UVERBS_QPT_UD:
      return caps.ooo_ud;
    case IB_UVERBS_QPT_XRC_INI:
    case IB_UVERBS_QPT_XRC_TGT:
      return caps.ooo_xrc;
    case kQptDct:
    case kQptDci:
      return caps.ooo_dc;
    default:
      return false;
  }
}

int ask_for_reordering(Request& request, std::uint32_t qp_handle) {
  Qp* const qp = request.file().find<Qp>(qp_handle);
  if (qp == nullptr) {
    return EINVAL;
  }
  if (!may_reorder(request.device().caps(), qp->qp_type)) {
    return EOPNOTSUPP;
  }
  qp->out_of_order = true;
  return 0;
}

// The change itself; `ece` is asked for, and becomes what the device grants. A DCT gets its number.
int modify(Request& request, const ib_uverbs_modify_qp& m, std::uint32_t& ece, std::uint32_t& dctn) {
  Qp* const qp = request.file().find<Qp>(m.qp_handle);
  if (qp == nullptr) {
    return EINVAL;
  }
  if (const int error = check_core(*qp, m); error != 0) {
    return error;
  }
  if (qp->is_rss) {
    return ENOSYS;
  }
  if (qp->qp_type == kQptDct) {
    return modify_dct(request, *qp, m, ece, dctn);
  }
  const State from = (m.attr_mask & kAttrCurrentState) != 0 ? State{m.cur_qp_state} : qp->common->state;
  const State to = (m.attr_mask & kAttrState) != 0 ? State{m.qp_state} : from;
  if (const int error = check_driver(request, *qp, m, from, to); error != 0) {
    return error;
  }
  if (from == State::kReset && to == State::kReset) {
    return 0;
  }
  if (qp->qp_type == IB_UVERBS_QPT_RAW_PACKET) {
    return modify_raw(request, *qp, m, from, to);
  }
  const auto opcode = opcode_of(from, to);
  if (!opcode) {
    return EINVAL;
  }
  const prm::InputHeader header{.opcode = *opcode, .uid = qp->uid};
  if (to == State::kReset || to == State::kErr) {
    if (const int error = command_on_object(request.firmware(), *opcode, qp->uid, qp->number); error != 0) {
      return error;
    }
    remember(*qp, m, to);
    return 0;
  }
  const auto qpc = context_of(request, *qp, m);
  if (!qpc) {
    return qpc.error();
  }
  const prm::ModifyQpIn in{
      .header = header,
      .qpn = qp->number,
      .opt_param_mask = optional_parameters_of(m.attr_mask) & allowed_parameters(from, to, qp->qp_type),
      .ece = ece,
      .qpc = *qpc};
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  if (!out) {
    return out.error();
  }
  ece = out->ece;
  remember(*qp, m, to);
  return 0;
}

}  // namespace

int modify_qp(Request& request) {
  ib_uverbs_modify_qp asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if ((asked.attr_mask & ~kAttrStandard) != 0) {
    return EOPNOTSUPP;
  }
  std::uint32_t ece = 0, dctn = 0;
  return modify(request, asked, ece, dctn);
}

int ex_modify_qp(Request& request) {
  ib_uverbs_ex_modify_qp asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  // Pacing is for raw packet QPs.
  if ((asked.base.attr_mask & ~kAttrStandard) != 0) {
    return (asked.base.attr_mask & ~(kAttrStandard | kAttrRateLimit)) != 0 ? EOPNOTSUPP : EINVAL;
  }
  mlx5_ib_modify_qp driver{};
  if (!request.driver_in().empty()) {
    request.get_driver(driver);
    if (request.driver_in().size() < offsetof(mlx5_ib_modify_qp, ece_options) + sizeof driver.ece_options) {
      return EINVAL;
    }
    if ((driver.comp_mask & ~umlx5::uapi::kMlx5ModifyQpOutOfOrderPlacement) != 0 || driver.burst_info.reserved != 0 ||
        !request.driver_in_is_zero_from(sizeof driver)) {
      return EOPNOTSUPP;
    }
  }
  if (driver.comp_mask != 0) {
    if (const int error = ask_for_reordering(request, asked.base.qp_handle); error != 0) {
      return error;
    }
  }
  const bool has_ece = request.device().caps().ece_support;
  std::uint32_t ece = has_ece ? driver.ece_options : 0;
  std::uint32_t dctn = 0;
  if (const int error = modify(request, asked.base, ece, dctn); error != 0) {
    return error;
  }
  if (request.driver_out_bytes() >= offsetof(mlx5_ib_modify_qp_resp, ece_options) + sizeof ece) {
    const mlx5_ib_modify_qp_resp response{
        .response_length = static_cast<std::uint32_t>(std::min(request.driver_out_bytes(), sizeof response)),
        .dctn = dctn,
        .ece_options = ece,
        .reserved = 0};
    if (const int error = request.put_driver(&response, response.response_length); error != 0) {
      return error;
    }
  }
  struct {
    std::uint32_t comp_mask, response_length;
  } response{0, static_cast<std::uint32_t>(std::min(request.core_out_bytes(), sizeof(ib_uverbs_ex_modify_qp_resp)))};
  return request.put_core(response);
}

}  // namespace softhca::kernel::handlers
