// The states of a queue pair, and the way from one to the next.
#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include "driver/context_state.h"
#include "driver/dv_flags.h"
#include "driver/log.h"
#include "driver/qp.h"

namespace umlx5 {
namespace {

// Bits of enum ibv_qp_attr_mask.
constexpr std::uint32_t kState = 1, kCurrentState = 1 << 1, kAccessFlags = 1 << 3, kPkeyIndex = 1 << 4, kPort = 1 << 5,
                        kQkey = 1 << 6, kAv = 1 << 7, kPathMtu = 1 << 8, kTimeout = 1 << 9, kRetryCount = 1 << 10,
                        kRnrRetry = 1 << 11, kRqPsn = 1 << 12, kMaxRdAtomic = 1 << 13, kMinRnrTimer = 1 << 15,
                        kSqPsn = 1 << 16, kMaxDestRdAtomic = 1 << 17, kDestQpn = 1 << 20, kRateLimit = 1 << 25;

// What each type must be told on its way from RESET to RTS (IBA 11.2.5.2 QP state transition properties; DC: mlx5_ib).
struct TransitionMasks {
  std::uint32_t init, rtr, rts;
};

constexpr std::uint32_t kConnection = kAv | kPathMtu | kDestQpn | kRqPsn;
constexpr std::uint32_t kResponder = kMaxDestRdAtomic | kMinRnrTimer;
constexpr std::uint32_t kRequester = kTimeout | kRetryCount | kRnrRetry | kMaxRdAtomic | kSqPsn;

TransitionMasks masks_of(QpType type, DcType dc_type) {
  switch (type) {
    case QpType::kUc:
      return {kAccessFlags | kPkeyIndex | kPort, kConnection, kSqPsn};
    case QpType::kUd:
      return {kPkeyIndex | kPort | kQkey, 0, kSqPsn};
    case QpType::kRawPacket:
      return {kPort, 0, 0};
    case QpType::kXrcSend:
      return {kAccessFlags | kPkeyIndex | kPort, kConnection, kRequester};
    case QpType::kXrcRecv:
      return {kAccessFlags | kPkeyIndex | kPort, kConnection | kResponder, kTimeout | kSqPsn};
    case QpType::kDriver:
      return dc_type == DcType::kDct
                 ? TransitionMasks{kAccessFlags | kPkeyIndex | kPort, kMinRnrTimer | kAv | kPathMtu, 0}
                 : TransitionMasks{kPkeyIndex | kPort, kPathMtu, kRequester};
    default:
      return {kAccessFlags | kPkeyIndex | kPort, kConnection | kResponder, kRequester};
  }
}

// The states from which `to` can be reached, as text for the error; empty if `from` is one of them.
std::string_view wrong_origin(QpState from, QpState to) {
  switch (to) {
    case QpState::kInit:
      return from == QpState::kReset || from == QpState::kInit ? "" : "RESET or INIT";
    case QpState::kRtr:
      return from == QpState::kInit ? "" : "INIT";
    case QpState::kRts:
      return from == QpState::kRtr || from == QpState::kRts || from == QpState::kSqd || from == QpState::kSqe
                 ? ""
                 : "RTR, SQD or SQE";
    case QpState::kSqd:
      return from == QpState::kRts || from == QpState::kSqd ? "" : "RTS";
    default:
      return "";
  }
}

// One attribute and how large it may be.
struct Bounded {
  std::string_view name;
  std::uint64_t value, at_most;
};

template <std::size_t N>
Expected<void> check(const std::string& qp, const Bounded (&attributes)[N]) {
  for (const Bounded& attribute : attributes) {
    if (attribute.value > attribute.at_most) {
      return fail(EINVAL, fmt::format("{}: {} {} is too large; at most {} (width of the field)", qp, attribute.name,
                                      attribute.value, attribute.at_most));
    }
  }
  return {};
}

}  // namespace

void Qp::set_state(QpState state) {
  state_.store(state, std::memory_order_relaxed);
  recv_.set_usable(state != QpState::kReset);
  send_.set_usable(state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe ||
                   state == QpState::kErr);
}

namespace {

// The end of a response up to and with the number of a DCT.
constexpr std::uint32_t kResponseWithDctn =
    offsetof(mlx5_ib_modify_qp_resp, dctn) + sizeof(mlx5_ib_modify_qp_resp::dctn);
static_assert(kResponseWithDctn == 8);

}  // namespace

Expected<uapi::QpChange> Qp::modify(const uapi::QpAttributes& attributes, std::uint32_t mask,
                                    const std::optional<mlx5_ib_modify_qp>& driver) {
  const auto to = static_cast<QpState>(attributes.state);
  const bool changes_state = (mask & kState) != 0;
  if (is_rss_) {
    return fail(EOPNOTSUPP, name() + ": an RSS QP has no states");
  }
  if (underlay_ && (mask & ~(kState | kCurrentState)) != 0) {
    return fail(EINVAL, name() + ": only the state of an underlay QP can be changed");
  }
  const bool out_of_order = (dv_create_flags_ & dv::kOutOfOrderPlacement) != 0;
  std::optional<mlx5_ib_modify_qp> request = driver;
  if (!request && (asked_ece_options_ != 0 || out_of_order || is_dct() || (mask & kRateLimit) != 0)) {
    request.emplace();
  }
  if (request) {
    request->ece_options = asked_ece_options_;
    if (out_of_order && changes_state && to == QpState::kInit) {
      request->comp_mask |= uapi::kMlx5ModifyQpOutOfOrderPlacement;
    }
  }
  auto change = uapi::modify_qp(*context_->state().commands, handle_, attributes, mask, request);
  if (!change) {
    return change;
  }
  if (asked_ece_options_ != 0) {
    ece_options_ = change->ece_options;
    asked_ece_options_ = 0;
  }
  if (changes_state) {
    if (auto result = follow_state(to, *change); !result) {
      return std::unexpected(std::move(result.error()));
    }
  }
  return change;
}

// Both records begin at zero.
void Qp::hold_receives() {
  recv_.move_record(record_.memory());
  recv_.reset();
  if (holds_receives()) {
    recv_.move_record(&held_record_);
  }
}

Expected<void> Qp::follow_state(QpState to, const uapi::QpChange& change) {
  if (is_dct() && to == QpState::kRtr) {  // only now has it been made in the device
    if (change.response_bytes < kResponseWithDctn) {
      return fail(EINVAL, "DCT to RTR: the kernel did not tell its number");
    }
    if (auto result = set_number(change.dctn); !result) {
      return result;
    }
  }
  if (to == QpState::kReset) {
    forget_completions();
    send_.reset();
    hold_receives();
  }
  if (to == QpState::kRtr && holds_receives()) {
    recv_.move_record(record_.memory());
  }
  if (to == QpState::kInit) {
    if (auto result = initialize_in_device(); !result) {
      return result;
    }
  }
  set_state(to);
  return {};
}

Expected<uapi::QpAttributes> Qp::query(std::uint32_t mask) {
  if (is_rss_) {
    return fail(EOPNOTSUPP, name() + ": an RSS QP has no attributes to query");
  }
  auto attributes = uapi::query_qp(*context_->state().commands, handle_, mask);
  if (!attributes) {
    return attributes;
  }
  attributes->capabilities = {.max_send_wr = capacity_.max_send_wr,
                              .max_recv_wr = capacity_.max_recv_wr,
                              .max_send_sge = capacity_.max_send_sge,
                              .max_recv_sge = capacity_.max_recv_sge,
                              .max_inline_data = capacity_.max_inline_bytes};
  if ((mask & kState) != 0) {
    state_.store(static_cast<QpState>(attributes->state), std::memory_order_relaxed);
  }
  return attributes;
}

// As modify(), for changes that this interface checks itself.
Expected<void> Qp::change(QpState to, const uapi::QpAttributes& attributes, std::uint32_t mask) {
  const QpState from = state();
  if (const std::string_view origins = wrong_origin(from, to); !origins.empty()) {
    return fail(EINVAL, fmt::format("{} is in {}; {} can be reached from {} only", name(), to_string(from),
                                    to_string(to), origins));
  }
  uapi::QpAttributes all = attributes;
  all.state = static_cast<std::uint8_t>(to);
  if (auto result = modify(all, mask | kState); !result) {
    Error error = std::move(result.error());
    error.what = fmt::format("{} from {} to {}: {}", name(), to_string(from), to_string(to), error.what);
    return std::unexpected(std::move(error));
  }
  log(LogLevel::kDebug, fmt::format("{}: {} -> {}", name(), to_string(from), to_string(to)));
  return {};
}

Expected<void> Qp::to_init(const InitAttributes& init) {
  uapi::QpAttributes attributes;
  attributes.port = init.port;
  attributes.pkey_index = init.pkey_index;
  attributes.access = init.remote_access.bits();
  attributes.qkey = init.qkey;
  return change(QpState::kInit, attributes, masks_of(type_, dc_type_).init);
}

Expected<void> Qp::to_rtr(const ReadyToReceiveAttributes& rtr) {
  if (auto result = check(name(), {{"remote_qpn", rtr.remote_qpn, 0xffffff},
                                   {"receive_psn", rtr.receive_psn, 0xffffff},
                                   {"flow_label", rtr.remote.flow_label, 0xfffff},
                                   {"min_rnr_timer", rtr.min_rnr_timer, 31}});
      !result) {
    return result;
  }
  uapi::QpAttributes attributes;
  attributes.path_mtu = static_cast<std::uint8_t>(rtr.path_mtu);
  attributes.destination_qpn = rtr.remote_qpn;
  attributes.rq_psn = rtr.receive_psn;
  attributes.max_dest_rd_atomic = rtr.max_target_reads_atomics;
  attributes.min_rnr_timer = rtr.min_rnr_timer;
  attributes.primary.dgid = rtr.remote.gid;
  attributes.primary.flow_label = rtr.remote.flow_label;
  attributes.primary.sgid_index = rtr.remote.local_gid_index;
  attributes.primary.hop_limit = rtr.remote.hop_limit;
  attributes.primary.traffic_class = rtr.remote.traffic_class;
  attributes.primary.sl = rtr.remote.service_level;
  attributes.primary.port = rtr.remote.port;
  attributes.primary.is_global = true;  // RoCE has no other address
  return change(QpState::kRtr, attributes, masks_of(type_, dc_type_).rtr);
}

Expected<void> Qp::to_rts(const ReadyToSendAttributes& rts) {
  if (state() != QpState::kRtr) {  // back from SQD or SQE: the connection's attributes stay
    return change(QpState::kRts, {}, 0);
  }
  if (auto result = check(name(), {{"send_psn", rts.send_psn, 0xffffff},
                                   {"timeout", rts.timeout, 31},
                                   {"retry_count", rts.retry_count, 7},
                                   {"rnr_retry", rts.rnr_retry, 7}});
      !result) {
    return result;
  }
  uapi::QpAttributes attributes;
  attributes.sq_psn = rts.send_psn;
  attributes.timeout = rts.timeout;
  attributes.retry_count = rts.retry_count;
  attributes.rnr_retry = rts.rnr_retry;
  attributes.max_rd_atomic = rts.max_initiated_reads_atomics;
  return change(QpState::kRts, attributes, masks_of(type_, dc_type_).rts);
}

Expected<void> Qp::to_sqd() { return change(QpState::kSqd, {}, 0); }

Expected<void> Qp::to_error() { return change(QpState::kErr, {}, 0); }

Expected<void> Qp::to_reset() { return change(QpState::kReset, {}, 0); }

Expected<void> Qp::connect(const QpAddress& peer, std::uint32_t local_psn, const InitAttributes& init,
                           const ReadyToReceiveAttributes& rtr, const ReadyToSendAttributes& rts) {
  ReadyToReceiveAttributes receive = rtr;
  receive.remote.gid = peer.gid;
  receive.remote.port = init.port;
  receive.remote_qpn = peer.qpn;
  receive.receive_psn = peer.psn;
  ReadyToSendAttributes send = rts;
  send.send_psn = local_psn;
  if (auto result = to_init(init); !result) {
    return result;
  }
  if (auto result = to_rtr(receive); !result) {
    return result;
  }
  return to_rts(send);
}

Expected<QpState> Qp::query_state() {
  const auto attributes = uapi::query_qp(*context_->state().commands, handle_, kState);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  return static_cast<QpState>(attributes->state);
}

}  // namespace umlx5
