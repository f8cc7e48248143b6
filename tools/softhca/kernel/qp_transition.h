// Which attributes a queue pair's change of state must and may carry: InfiniBand specification, volume 1, "Queue Pair
// and EE Context States", tables of the modify verb.
#pragma once

#include <cstdint>

namespace softhca::kernel {

// States and attribute bits as the uverbs ABI numbers them (IBV_QPS_*, IBV_QP_*).
enum class State : std::uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };
inline constexpr std::uint32_t kAttrState = 1u << 0, kAttrCurrentState = 1u << 1, kAttrSqdNotify = 1u << 2,
                               kAttrAccess = 1u << 3, kAttrPkeyIndex = 1u << 4, kAttrPort = 1u << 5,
                               kAttrQkey = 1u << 6, kAttrAv = 1u << 7, kAttrPathMtu = 1u << 8, kAttrTimeout = 1u << 9,
                               kAttrRetryCount = 1u << 10, kAttrRnrRetry = 1u << 11, kAttrRqPsn = 1u << 12,
                               kAttrMaxRdAtomic = 1u << 13, kAttrAltPath = 1u << 14, kAttrMinRnrTimer = 1u << 15,
                               kAttrSqPsn = 1u << 16, kAttrMaxDestRdAtomic = 1u << 17, kAttrPathMigState = 1u << 18,
                               kAttrCap = 1u << 19, kAttrDestQpn = 1u << 20, kAttrRateLimit = 1u << 25;
inline constexpr std::uint32_t kAttrStandard = (1u << 21) - 1;

// Types of QP that the verbs call IBV_QPT_DRIVER, under numbers of this side's own.
inline constexpr std::uint8_t kQptDci = 0xf1, kQptDct = 0xf2;

// True if a QP of `qp_type` (ib_uverbs_qp_type, or kQptDci) may go from one state to the other by a request with
// exactly the attributes of `mask`.
bool transition_is_ok(State from, State to, std::uint8_t qp_type, std::uint32_t mask);

}  // namespace softhca::kernel
