// Expected masks: the attribute lists of ibv_modify_qp(3).
#include "tools/softhca/kernel/qp_transition.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace softhca::kernel {
namespace {

constexpr std::uint32_t kRcInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr std::uint32_t kRcRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr std::uint32_t kRcRts =
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr std::uint32_t kUcRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr std::uint32_t kUdInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

bool ok(State from, State to, ibv_qp_type type, std::uint32_t mask) {
  return transition_is_ok(from, to, static_cast<std::uint8_t>(type), mask);
}

TEST(Transition, NumbersAreTheAbis) {
  EXPECT_EQ(static_cast<int>(State::kErr), IBV_QPS_ERR);
  EXPECT_EQ(kAttrDestQpn, static_cast<std::uint32_t>(IBV_QP_DEST_QPN));
  EXPECT_EQ(kAttrRateLimit, static_cast<std::uint32_t>(IBV_QP_RATE_LIMIT));
}

TEST(Transition, TakesWhatTheManualLists) {
  EXPECT_TRUE(ok(State::kReset, State::kInit, IBV_QPT_RC, kRcInit));
  EXPECT_TRUE(ok(State::kInit, State::kRtr, IBV_QPT_RC, kRcRtr));
  EXPECT_TRUE(ok(State::kRtr, State::kRts, IBV_QPT_RC, kRcRts));
  EXPECT_TRUE(ok(State::kReset, State::kInit, IBV_QPT_UC, kRcInit));
  EXPECT_TRUE(ok(State::kInit, State::kRtr, IBV_QPT_UC, kUcRtr));
  EXPECT_TRUE(ok(State::kRtr, State::kRts, IBV_QPT_UC, IBV_QP_STATE | IBV_QP_SQ_PSN));
  EXPECT_TRUE(ok(State::kReset, State::kInit, IBV_QPT_UD, kUdInit));
  EXPECT_TRUE(ok(State::kInit, State::kRtr, IBV_QPT_UD, IBV_QP_STATE));
  EXPECT_TRUE(ok(State::kRtr, State::kRts, IBV_QPT_UD, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

TEST(Transition, MissingAttributeIsRefused) {
  for (std::uint32_t bit = 2; bit < 1u << 21; bit <<= 1) {
    if ((kRcRtr & bit) != 0) {
      EXPECT_FALSE(ok(State::kInit, State::kRtr, IBV_QPT_RC, kRcRtr & ~bit)) << bit;
    }
  }
}

TEST(Transition, OptionalAndForeignAttributes) {
  EXPECT_TRUE(ok(State::kInit, State::kRtr, IBV_QPT_RC, kRcRtr | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX));
  EXPECT_FALSE(ok(State::kInit, State::kRtr, IBV_QPT_RC, kRcRtr | IBV_QP_QKEY));
  EXPECT_FALSE(ok(State::kReset, State::kInit, IBV_QPT_UD, kUdInit | IBV_QP_ACCESS_FLAGS));
  EXPECT_FALSE(ok(State::kReset, State::kInit, IBV_QPT_RC, kRcInit | IBV_QP_CUR_STATE));
  EXPECT_TRUE(ok(State::kRts, State::kRts, IBV_QPT_RC, IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER));
}

TEST(Transition, WhichStatesFollow) {
  for (int from = 0; from <= static_cast<int>(State::kErr); ++from) {
    EXPECT_TRUE(ok(State(from), State::kReset, IBV_QPT_RC, IBV_QP_STATE)) << from;
    EXPECT_EQ(ok(State(from), State::kErr, IBV_QPT_RC, IBV_QP_STATE), from != 0) << from;
  }
  EXPECT_FALSE(ok(State::kReset, State::kRtr, IBV_QPT_RC, kRcRtr));
  EXPECT_FALSE(ok(State::kErr, State::kRts, IBV_QPT_RC, kRcRts));
  EXPECT_TRUE(ok(State::kRts, State::kSqd, IBV_QPT_RC, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
  EXPECT_TRUE(ok(State::kSqe, State::kRts, IBV_QPT_UD, IBV_QP_STATE | IBV_QP_QKEY));
}

}  // namespace
}  // namespace softhca::kernel
