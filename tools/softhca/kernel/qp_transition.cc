#include "tools/softhca/kernel/qp_transition.h"

#include <rdma/ib_user_ioctl_verbs.h>

namespace softhca::kernel {
namespace {

// Attributes of one transition, by what kind of QP it is.
struct Attributes {
  std::uint32_t rc = 0, uc = 0, ud = 0, raw = 0, xrc_initiator = 0, xrc_target = 0;

  std::uint32_t of(std::uint8_t qp_type) const {
    switch (qp_type) {
      case IB_UVERBS_QPT_RC:
        return rc;
      case IB_UVERBS_QPT_UC:
        return uc;
      case IB_UVERBS_QPT_UD:
        return ud;
      case IB_UVERBS_QPT_RAW_PACKET:
        return raw;
      case IB_UVERBS_QPT_XRC_INI:
        return xrc_initiator;
      case IB_UVERBS_QPT_XRC_TGT:
        return xrc_target;
      default:
        return 0;
    }
  }
};

struct Rule {
  State from, to;
  Attributes required, optional;
};

constexpr std::uint32_t kInitConnected = kAttrPkeyIndex | kAttrPort | kAttrAccess;
constexpr std::uint32_t kInitDatagram = kAttrPkeyIndex | kAttrPort | kAttrQkey;
constexpr std::uint32_t kRtrUnreliable = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
constexpr std::uint32_t kRtrReliable = kRtrUnreliable | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr std::uint32_t kRtrOptional = kAttrAltPath | kAttrAccess | kAttrPkeyIndex;
constexpr std::uint32_t kRtrOptionalDatagram = kAttrPkeyIndex | kAttrQkey;
constexpr std::uint32_t kRtsReliable = kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic;
constexpr std::uint32_t kRtsOptional = kAttrCurrentState | kAttrAltPath | kAttrAccess | kAttrPathMigState;
constexpr std::uint32_t kRtsOptionalReliable = kRtsOptional | kAttrMinRnrTimer;
constexpr std::uint32_t kCurrentAndQkey = kAttrCurrentState | kAttrQkey;
constexpr std::uint32_t kSqdChange = kAttrPort | kAttrAv | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry |
                                     kAttrMaxRdAtomic | kAttrMaxDestRdAtomic | kAttrAltPath | kAttrAccess |
                                     kAttrPkeyIndex | kAttrMinRnrTimer | kAttrPathMigState;
constexpr std::uint32_t kSqdChangeTarget = kSqdChange & ~(kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic);
constexpr std::uint32_t kSqdChangeInitiator = kSqdChange & ~(kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
constexpr std::uint32_t kSqdChangeUnreliable =
    kAttrAv | kAttrAltPath | kAttrAccess | kAttrPkeyIndex | kAttrPathMigState;

constexpr Rule kRules[] = {
    {State::kReset,
     State::kInit,
     {.rc = kInitConnected,
      .uc = kInitConnected,
      .ud = kInitDatagram,
      .raw = kAttrPort,
      .xrc_initiator = kInitConnected,
      .xrc_target = kInitConnected},
     {}},
    {State::kInit,
     State::kInit,
     {},
     {.rc = kInitConnected,
      .uc = kInitConnected,
      .ud = kInitDatagram,
      .raw = 0,
      .xrc_initiator = kInitConnected,
      .xrc_target = kInitConnected}},
    {State::kInit,
     State::kRtr,
     {.rc = kRtrReliable,
      .uc = kRtrUnreliable,
      .ud = 0,
      .raw = 0,
      .xrc_initiator = kRtrUnreliable,
      .xrc_target = kRtrReliable},
     {.rc = kRtrOptional,
      .uc = kRtrOptional,
      .ud = kRtrOptionalDatagram,
      .raw = 0,
      .xrc_initiator = kRtrOptional,
      .xrc_target = kRtrOptional}},
    {State::kRtr,
     State::kRts,
     {.rc = kRtsReliable,
      .uc = kAttrSqPsn,
      .ud = kAttrSqPsn,
      .raw = 0,
      .xrc_initiator = kRtsReliable,
      .xrc_target = kAttrTimeout | kAttrSqPsn},
     {.rc = kRtsOptionalReliable,
      .uc = kRtsOptional,
      .ud = kCurrentAndQkey,
      .raw = kAttrRateLimit,
      .xrc_initiator = kRtsOptional,
      .xrc_target = kRtsOptionalReliable}},
    {State::kRts,
     State::kRts,
     {},
     {.rc = kRtsOptionalReliable,
      .uc = kRtsOptional,
      .ud = kCurrentAndQkey,
      .raw = kAttrRateLimit,
      .xrc_initiator = kRtsOptional,
      .xrc_target = kRtsOptionalReliable}},
    {State::kRts,
     State::kSqd,
     {},
     {.rc = kAttrSqdNotify,
      .uc = kAttrSqdNotify,
      .ud = kAttrSqdNotify,
      .raw = 0,
      .xrc_initiator = kAttrSqdNotify,
      .xrc_target = kAttrSqdNotify}},
    {State::kSqd,
     State::kRts,
     {},
     {.rc = kRtsOptionalReliable,
      .uc = kRtsOptional,
      .ud = kCurrentAndQkey,
      .raw = 0,
      .xrc_initiator = kRtsOptional,
      .xrc_target = kRtsOptionalReliable}},
    {State::kSqd,
     State::kSqd,
     {},
     {.rc = kSqdChange,
      .uc = kSqdChangeUnreliable,
      .ud = kAttrPkeyIndex | kAttrQkey,
      .raw = 0,
      .xrc_initiator = kSqdChangeInitiator,
      .xrc_target = kSqdChangeTarget}},
    {State::kSqe,
     State::kRts,
     {},
     {.rc = 0,
      .uc = kAttrCurrentState | kAttrAccess,
      .ud = kCurrentAndQkey,
      .raw = 0,
      .xrc_initiator = 0,
      .xrc_target = 0}},
};

}  // namespace

namespace {

// mlx5_ib has rules of its own for DC initiators.
bool dci_transition_is_ok(State from, State to, std::uint32_t mask) {
  struct DciRule {
    State from, to;
    std::uint32_t required, optional;
  };
  static constexpr DciRule kDciRules[] = {{State::kReset, State::kInit, kAttrPkeyIndex | kAttrPort, 0},
                                          {State::kInit, State::kInit, 0, kAttrPkeyIndex | kAttrPort},
                                          {State::kInit, State::kRtr, kAttrPathMtu, kAttrPkeyIndex | kAttrAv},
                                          {State::kRtr, State::kRts, kRtsReliable, kAttrMinRnrTimer}};
  if (to == State::kReset || (to == State::kErr && from != State::kReset)) {
    return mask == kAttrState;
  }
  for (const DciRule& rule : kDciRules) {
    if (rule.from == from && rule.to == to) {
      const std::uint32_t must = rule.required | kAttrState;
      return (mask & must) == must && (mask & ~(must | rule.optional)) == 0;
    }
  }
  return false;
}

}  // namespace

bool transition_is_ok(State from, State to, std::uint8_t qp_type, std::uint32_t mask) {
  if (qp_type == kQptDci) {
    return dci_transition_is_ok(from, to, mask);
  }
  if ((mask & kAttrCurrentState) != 0 && from != State::kRtr && from != State::kRts && from != State::kSqd &&
      from != State::kSqe) {
    return false;
  }
  Attributes required, optional;
  bool known = to == State::kReset || (to == State::kErr && from != State::kReset);
  for (const Rule& rule : kRules) {
    if (rule.from == from && rule.to == to) {
      required = rule.required;
      optional = rule.optional;
      known = true;
    }
  }
  const std::uint32_t must = required.of(qp_type);
  const std::uint32_t may = must | optional.of(qp_type) | kAttrState;
  return known && (mask & must) == must && (mask & ~may) == 0;
}

}  // namespace softhca::kernel
