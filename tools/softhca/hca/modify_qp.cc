// The QP state machine: RST2INIT .. SQD_RTS, 2ERR, 2RST.
#include <algorithm>
#include <array>
#include <memory>

#include "tools/softhca/hca/command.h"
#include "tools/softhca/hca/gid.h"
#include "wqe/prm/qp.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::Opcode;
using prm::Status;

namespace {

constexpr std::uint8_t kDefaultHopLimit = 64;
constexpr std::uint16_t kFirstFlowPort = 0xc000;

struct Transition {
  Opcode opcode;
  QpState from;
  QpState to;
  // Optional parameters by service type.
  std::uint32_t optional_rc, optional_uc, optional_ud;
};

constexpr std::uint32_t kOptRemote = prm::kOptRre | prm::kOptRae | prm::kOptRwe;
// Accepted everywhere and without effect: a path that is the only one has always migrated.
constexpr std::uint32_t kOptIgnored = prm::kOptPmState | prm::kOptLagTxAffinity | prm::kOptCounterSetId;

constexpr Transition kTransitions[] = {
    {Opcode::kRst2InitQp, QpState::kReset, QpState::kInit, 0, 0, 0},
    {Opcode::kInit2InitQp, QpState::kInit, QpState::kInit,
     kOptRemote | prm::kOptPkeyIndex | prm::kOptPrimaryPort | prm::kOptDrainSigerr,
     prm::kOptRwe | prm::kOptPkeyIndex | prm::kOptPrimaryPort,
     prm::kOptPkeyIndex | prm::kOptQkey | prm::kOptPrimaryPort},
    {Opcode::kInit2RtrQp, QpState::kInit, QpState::kRtr, kOptRemote | prm::kOptPkeyIndex,
     prm::kOptRwe | prm::kOptPkeyIndex, prm::kOptPkeyIndex | prm::kOptQkey},
    {Opcode::kRtr2RtsQp, QpState::kRtr, QpState::kRts, kOptRemote | prm::kOptRnrTimeout, prm::kOptRwe, prm::kOptQkey},
    {Opcode::kRts2RtsQp, QpState::kRts, QpState::kRts, kOptRemote | prm::kOptRnrTimeout, prm::kOptRwe, prm::kOptQkey},
    {Opcode::kSqerr2RtsQp, QpState::kSqEr, QpState::kRts, 0, prm::kOptRwe, prm::kOptQkey},
    {Opcode::kSqd2RtsQp, QpState::kSqDrained, QpState::kRts, kOptRemote | prm::kOptRnrTimeout, prm::kOptRwe,
     prm::kOptQkey},
};

std::uint32_t optional_of(const Transition& transition, QpType type) {
  const std::uint32_t own = type == QpType::kUd   ? transition.optional_ud
                            : type == QpType::kUc ? transition.optional_uc
                                                  : transition.optional_rc;
  return own | kOptIgnored;
}

// Has one peer, which its context names.
bool is_connected(QpType type) { return type != QpType::kUd && type != QpType::kDci; }

// The GID of a table entry; false if the entry is empty.
bool gid_of(const prm::RoceAddress& entry, std::array<std::uint8_t, 16>& gid) {
  gid = entry.source_l3_address;
  if (std::ranges::all_of(gid, [](std::uint8_t byte) { return byte == 0; })) {
    return false;
  }
  if (entry.roce_version == prm::kRoceAddressV2 && entry.roce_l3_type == prm::kRoceAddressIpv4) {
    gid[10] = gid[11] = 0xff;
  }
  return true;
}

// Same flow, same port: both directions of a connection differ, as with hardware.
std::uint16_t flow_port(const prm::AddressPath& path, std::uint32_t qpn, std::uint32_t remote_qpn) {
  if (path.udp_sport >= kFirstFlowPort) {
    return path.udp_sport;
  }
  std::uint64_t mixed = std::uint64_t{qpn} * remote_qpn;
  mixed ^= mixed >> 20 ^ mixed >> 40;
  return static_cast<std::uint16_t>(kFirstFlowPort | (mixed & 0x3fff));
}

Refusal take_path(const Device& device, const prm::Qpc& qpc, QpObject& qp) {
  const prm::AddressPath& path = qpc.primary_address_path;
  if (path.src_addr_index >= device.gids.size() || !gid_of(device.gids[path.src_addr_index], qp.path.local_gid)) {
    return bad_parameter(Syndrome::kQpGidIndex);
  }
  const auto destination = ipv4_of(path.rgid_rip);
  if (!destination || destination->is_multicast()) {
    return bad_parameter(Syndrome::kQpRemoteGid);
  }
  qp.path.route.destination = *destination;
  qp.path.route.source_port = flow_port(path, qp.qpn, qpc.remote_qpn);
  qp.path.route.traffic_class = path.tclass;
  qp.path.remote_gid = path.rgid_rip;
  qp.path.sgid_index = path.src_addr_index;
  qp.path.hop_limit = path.hop_limit != 0 ? path.hop_limit : kDefaultHopLimit;
  return {};
}

// ---- Each transition's required fields ----

Refusal take_port(const Device& device, const prm::Qpc& qpc, QpObject& qp, bool port, bool pkey) {
  if (port && qpc.primary_address_path.vhca_port_num != 1) {
    return bad_parameter(Syndrome::kQpPort);
  }
  if (pkey) {
    if (qpc.primary_address_path.pkey_index >= device.profile.pkey_table_entries) {
      return bad_parameter(Syndrome::kQpPkeyIndex);
    }
    qp.pkey_index = qpc.primary_address_path.pkey_index;
  }
  return {};
}

Refusal take_remote_access(const prm::Qpc& qpc, std::uint32_t which, QpObject& qp) {
  if ((which & prm::kOptRae) != 0 && qpc.rae && qpc.atomic_mode == 0) {
    return bad_parameter(Syndrome::kQpAtomicMode);
  }
  qp.remote_read = (which & prm::kOptRre) != 0 ? qpc.rre : qp.remote_read;
  qp.remote_write = (which & prm::kOptRwe) != 0 ? qpc.rwe : qp.remote_write;
  qp.remote_atomic = (which & prm::kOptRae) != 0 ? qpc.rae : qp.remote_atomic;
  return {};
}

Refusal to_init(const Device& device, const prm::Qpc& qpc, QpObject& qp) {
  if (const Refusal refusal = take_port(device, qpc, qp, true, true)) {
    return refusal;
  }
  qp.qkey = qpc.q_key;
  return is_connected(qp.type) ? take_remote_access(qpc, kOptRemote, qp) : Refusal{};
}

Refusal to_rtr(const Device& device, const prm::Qpc& qpc, QpObject& qp) {
  qp.out_of_order = qpc.dp_ordering_1 && qpc.dp_ordering_force;
  if (qpc.dp_ordering_1 && !device.profile.out_of_order) {
    return bad_parameter(Syndrome::kQpOrdering);
  }
  if (qp.type == QpType::kUd) {
    qp.path.log_mtu = device.profile.log_port_mtu;
    return {};
  }
  if (qpc.mtu < 1 || qpc.mtu > device.profile.log_port_mtu) {
    return bad_parameter(Syndrome::kQpMtu);
  }
  if (qp.type == QpType::kDci) {
    qp.path.log_mtu = qpc.mtu;
    return {};
  }
  if (is_reliable(qp.type)) {
    if (qpc.log_rra_max > device.profile.log_max_ra_res_qp) {
      return exceeds_limit(Syndrome::kQpRdAtomic);
    }
    qp.max_target_rd_atomic = 1u << qpc.log_rra_max;
    qp.min_rnr_timer = qpc.min_rnr_nak;
  }
  qp.path.log_mtu = qpc.mtu;
  qp.remote_qpn = qpc.remote_qpn;
  qp.initial_receive_psn = qpc.next_rcv_psn;
  return take_path(device, qpc, qp);
}

Refusal to_rts(const Device& device, const prm::Qpc& qpc, QpObject& qp) {
  if (is_reliable(qp.type)) {
    if (qpc.log_sra_max > device.profile.log_max_ra_req_qp) {
      return exceeds_limit(Syndrome::kQpRdAtomic);
    }
    qp.max_initiated_rd_atomic = 1u << qpc.log_sra_max;
    qp.retry_count = qpc.retry_count;
    qp.rnr_retry = qpc.rnr_retry;
    qp.ack_timeout = qpc.primary_address_path.ack_timeout;
  }
  qp.initial_send_psn = qpc.next_send_psn;
  return {};
}

Refusal take_optional(const Device& device, const prm::ModifyQpIn& in, QpObject& qp) {
  const std::uint32_t mask = in.opt_param_mask;
  if (const Refusal refusal =
          take_port(device, in.qpc, qp, (mask & prm::kOptPrimaryPort) != 0, (mask & prm::kOptPkeyIndex) != 0)) {
    return refusal;
  }
  if ((mask & prm::kOptQkey) != 0) {
    qp.qkey = in.qpc.q_key;
  }
  if ((mask & prm::kOptDrainSigerr) != 0) {
    qp.drain_sigerr = in.qpc.drain_sigerr;
  }
  if ((mask & prm::kOptRnrTimeout) != 0) {
    qp.min_rnr_timer = in.qpc.min_rnr_nak;
  }
  return take_remote_access(in.qpc, mask, qp);
}

Refusal take_fields(const Device& device, const Transition& transition, const prm::ModifyQpIn& in, QpObject& qp) {
  Refusal refusal;
  if (transition.opcode == Opcode::kRst2InitQp) {
    refusal = to_init(device, in.qpc, qp);
  } else if (transition.opcode == Opcode::kInit2RtrQp) {
    refusal = to_rtr(device, in.qpc, qp);
  } else if (transition.opcode == Opcode::kRtr2RtsQp) {
    refusal = to_rts(device, in.qpc, qp);
  }
  return refusal ? refusal : take_optional(device, in, qp);
}

Refusal check(const Transition& transition, const prm::ModifyQpIn& in, const QpObject& qp) {
  if (qp.state != transition.from) {
    return {Status::kBadQpState, Syndrome::kQpState};
  }
  if (!in.qpc_ext && in.opt_param_mask_95_32 != 0) {
    return bad_parameter(Syndrome::kQpExtension);
  }
  if (in.ece != 0) {
    return bad_parameter(Syndrome::kQpEce);
  }
  if ((in.opt_param_mask & prm::kOptAlternatePath) != 0) {
    return bad_parameter(Syndrome::kQpAlternatePath);
  }
  if ((in.opt_param_mask & ~optional_of(transition, qp.type)) != 0) {
    return bad_parameter(Syndrome::kQpOptionalParameter);
  }
  return {};
}

// The extension of the QP context: only what its mask names.
Refusal take_extension(Device& device, const Request& request, const prm::ModifyQpIn& in, QpObject& qp) {
  if (in.opt_param_mask_95_32 == 0) {
    return {};
  }
  const bool resets_stream = in.opt_param_mask_95_32 == prm::kOpt2DciStreamChannelId &&
                             request.header.opcode == Opcode::kRts2RtsQp && qp.max_errored_streams != 0;
  const bool sets_mmo = in.opt_param_mask_95_32 == prm::kOpt2Mmo && request.header.opcode == Opcode::kInit2InitQp &&
                        device.profile.mmo && has_mmo(qp.type);
  if (!resets_stream && !sets_mmo) {
    return bad_parameter(Syndrome::kQpExtension);
  }
  if (request.in.size() < prm::kQpcExtensionOffset + prm::QpcExtension::kBytes) {
    return {Status::kBadInputLength, Syndrome::kInputTooShort};
  }
  const auto extension = umlx5::wqe::load<prm::QpcExtension>(request.in.data() + prm::kQpcExtensionOffset);
  if (sets_mmo) {
    qp.copies_memory = extension.mmo;
    return {};
  }
  return device.transport.reset_stream(qp, extension.dci_stream_channel_id)
             ? Refusal{}
             : bad_parameter(Syndrome::kDciStreamNotFailed);
}

// What the commands may change, to put back when one is refused half-way: a refused command changes nothing.
struct Attributes {
  explicit Attributes(const Qp& qp)
      : path(qp.path),
        remote_qpn(qp.remote_qpn),
        qkey(qp.qkey),
        pkey_index(qp.pkey_index),
        initial_send_psn(qp.initial_send_psn),
        initial_receive_psn(qp.initial_receive_psn),
        max_initiated(qp.max_initiated_rd_atomic),
        max_target(qp.max_target_rd_atomic),
        retry_count(qp.retry_count),
        rnr_retry(qp.rnr_retry),
        ack_timeout(qp.ack_timeout),
        min_rnr_timer(qp.min_rnr_timer),
        remote_read(qp.remote_read),
        remote_write(qp.remote_write),
        remote_atomic(qp.remote_atomic),
        out_of_order(qp.out_of_order),
        drain_sigerr(qp.drain_sigerr) {}

  void put_back(Qp& qp) const {
    qp.path = path;
    qp.remote_qpn = remote_qpn;
    qp.qkey = qkey;
    qp.pkey_index = pkey_index;
    qp.initial_send_psn = initial_send_psn;
    qp.initial_receive_psn = initial_receive_psn;
    qp.max_initiated_rd_atomic = max_initiated;
    qp.max_target_rd_atomic = max_target;
    qp.retry_count = retry_count;
    qp.rnr_retry = rnr_retry;
    qp.ack_timeout = ack_timeout;
    qp.min_rnr_timer = min_rnr_timer;
    qp.remote_read = remote_read;
    qp.remote_write = remote_write;
    qp.remote_atomic = remote_atomic;
    qp.out_of_order = out_of_order;
    qp.drain_sigerr = drain_sigerr;
  }

  Path path;
  std::uint32_t remote_qpn, qkey;
  std::uint16_t pkey_index;
  std::uint32_t initial_send_psn, initial_receive_psn, max_initiated, max_target;
  std::uint8_t retry_count, rnr_retry, ack_timeout, min_rnr_timer;
  bool remote_read, remote_write, remote_atomic, out_of_order, drain_sigerr;
};

// Keeps QUERY_QP's answer: what this transition carried, and what the QP has become.
void remember(const Transition& transition, const prm::Qpc& from, const QpObject& qp) {
  prm::Qpc& to = *qp.context;
  if (transition.opcode == Opcode::kRst2InitQp || transition.opcode == Opcode::kInit2RtrQp) {
    const prm::AddressPath before = to.primary_address_path;
    to.primary_address_path = from.primary_address_path;
    if (transition.opcode == Opcode::kInit2RtrQp) {
      to.primary_address_path.vhca_port_num = before.vhca_port_num;
    }
  }
  to.primary_address_path.pkey_index = qp.pkey_index;
  to.primary_address_path.ack_timeout = qp.ack_timeout;
  if (transition.opcode == Opcode::kInit2RtrQp) {
    to.mtu = from.mtu;
    to.remote_qpn = from.remote_qpn;
    to.log_rra_max = from.log_rra_max;
    to.next_rcv_psn = from.next_rcv_psn;
    to.log_msg_max = from.log_msg_max;
    to.dp_ordering_1 = from.dp_ordering_1;
    to.dp_ordering_force = from.dp_ordering_force;
  } else if (transition.opcode == Opcode::kRtr2RtsQp) {
    to.log_sra_max = from.log_sra_max;
    to.retry_count = from.retry_count;
    to.rnr_retry = from.rnr_retry;
    to.next_send_psn = from.next_send_psn;
  }
  to.q_key = qp.qkey;
  to.min_rnr_nak = qp.min_rnr_timer;
  to.rre = qp.remote_read;
  to.rwe = qp.remote_write;
  to.rae = qp.remote_atomic;
  to.drain_sigerr = qp.drain_sigerr;
  to.atomic_mode = from.atomic_mode != 0 ? from.atomic_mode : to.atomic_mode;
  to.pm_state = prm::kPathMigrated;
}

}  // namespace

void enter_state(Device& device, QpObject& qp, QpState to) {
  const QpState from = qp.state;
  qp.state = to;
  if (to == QpState::kReset) {
    qp.sq_consumed_wqebbs = qp.rq_consumed = 0;
    qp.drain_sigerr = qp.out_of_order = false;
  }
  device.transport.state_changed(qp, from);
}

Refusal modify_qp(Device& device, const Request& request) {
  const auto in = request.as<prm::ModifyQpIn>();
  QpObject* qp = nullptr;
  if (const Refusal refusal = find_qp(device, request, qp)) {
    return refusal;
  }
  const Transition& transition = *std::ranges::find(kTransitions, request.header.opcode, &Transition::opcode);
  if (const Refusal refusal = check(transition, in, *qp)) {
    return refusal;
  }
  const Attributes before(*qp);
  if (const Refusal refusal = take_fields(device, transition, in, *qp)) {
    before.put_back(*qp);
    return refusal;
  }
  if (const Refusal refusal = take_extension(device, request, in, *qp)) {
    before.put_back(*qp);
    return refusal;
  }
  remember(transition, in.qpc, *qp);
  enter_state(device, *qp, transition.to);
  return {};
}

Refusal reset_or_fail_qp(Device& device, const Request& request) {
  QpObject* qp = nullptr;
  if (const Refusal refusal = find_qp(device, request, qp)) {
    return refusal;
  }
  device.transport.acknowledge(*qp);
  enter_state(device, *qp, request.header.opcode == Opcode::kToRstQp ? QpState::kReset : QpState::kErr);
  return {};
}

void fail_qp(Device& device, QpObject& qp) {
  if (qp.state != QpState::kErr && qp.state != QpState::kReset) {
    enter_state(device, qp, QpState::kErr);
  }
}

}  // namespace softhca::hca
