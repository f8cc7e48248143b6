// Commands as literal mailboxes (positions from <linux/mlx5/mlx5_ifc.h>), queues as bytes (positions from mlx5dv.h).
#include "tools/softhca/hca/hca.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "tests/tools/softhca/hca/hca_rig.h"

namespace softhca::hca {
namespace {

using namespace harness;

struct HcaTest : ::testing::Test, ReadyRig {
  std::uint32_t allocate(std::uint32_t opcode) {
    EXPECT_EQ(run_on(opcode, 0), kOk);
    return number();
  }
};

TEST_F(HcaTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(run(16, {{0, 0x07ff0000}}), kBadOp);
  const std::uint32_t unknown = syndrome();
  EXPECT_EQ(run(16, {{0, 0x07170000}}), kBadOp);  // CREATE_XRQ
  EXPECT_NE(syndrome(), unknown);
  EXPECT_EQ(run(4, {}), kBadInputLength);
  EXPECT_EQ(run(16, {{0, 0x05000000}}), kBadInputLength);  // CREATE_QP without its context
  EXPECT_EQ(run(16, {{0, 0x08000000}}, {}, 8), kBadOutputLength);
  EXPECT_EQ(run(16, {{0, 0x08000007}}), kBadParam);  // uid 7 does not exist
}

TEST_F(HcaTest, NumbersComeBackLate) {
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 60; ++i) {
    const std::uint32_t number = allocate(0x800);
    EXPECT_TRUE(seen.insert(number).second);
    EXPECT_EQ(run(16, {{0, 0x08010000}, {8, number}}), kOk);
    EXPECT_EQ(run(16, {{0, 0x08010000}, {8, number}}), kBadRes);
  }
}

TEST_F(HcaTest, ObjectsInUseStay) {
  ASSERT_EQ(create_qp(0), kOk);
  const std::uint32_t qpn = number();
  EXPECT_EQ(run(16, {{0, 0x08010000}, {8, pd}}), kBadResState);
  EXPECT_EQ(run(16, {{0, 0x04010000}, {8, cqn}}), kBadResState);
  EXPECT_EQ(run(16, {{0, 0x03020000}, {8, eqn}}), kBadResState);
  EXPECT_EQ(run(16, {{0, 0x08030000}, {8, uar}}), kBadResState);
  EXPECT_EQ(run(16, {{0, 0x05010000}, {8, qpn}}), kOk);
  EXPECT_EQ(run(16, {{0, 0x04010000}, {8, cqn}}), kOk);
  EXPECT_EQ(run(16, {{0, 0x03020000}, {8, eqn}}), kOk);
  EXPECT_EQ(run(16, {{0, 0x08030000}, {8, uar}}), kOk);
  EXPECT_EQ(run(16, {{0, 0x08010000}, {8, pd}}), kOk);
}

TEST_F(HcaTest, QpStatesFollowEachOther) {
  EXPECT_EQ(create_qp(6), kBadParam);  // DCT
  EXPECT_EQ(create_qp(0, 6), 0x50u);   // 64 WQEBBs need a second page
  ASSERT_EQ(create_qp(0), kOk);
  const std::uint32_t qpn = number();
  EXPECT_EQ(run(272, {{0, 0x05030000}, {8, qpn}}), kBadQpState);                    // INIT2RTR from RESET
  EXPECT_EQ(run(272, {{0, 0x05020000}, {8, qpn}, {0x54, 0x00020000}}), kBadParam);  // port 2
  EXPECT_EQ(run(272, {{0, 0x05020000}, {8, qpn}, {0x54, 0x00010000}}), kOk);        // RST2INIT
  EXPECT_EQ(run(16, {{0, 0x050b0000}, {8, qpn}}), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x18) >> 28, 1u);
  const Words rtr = {{0, 0x05030000}, {8, qpn},           {0x20, 0xa0000000}, {0x2c, 0x99},
                     {0x38, 0},       {0x48, 0x0000ffff}, {0x4c, 0x7f000003}};
  // rgid at 0x30 + 0x10: its last two words are 0x48 and 0x4c.
  EXPECT_EQ(run(272, rtr), kBadParam);                                        // the GID table is empty
  ASSERT_EQ(run(48, {{0, 0x07610000}, {0x1c, 0x7f000002}, {0x28, 2}}), kOk);  // SET_ROCE_ADDRESS 0
  EXPECT_EQ(run(272, rtr), kOk);
  EXPECT_EQ(run(272, {{0, 0x05040000}, {8, qpn}, {0x10, 1u << 5}}), kBadParam);  // RC takes no Q_Key
  EXPECT_EQ(run(272, {{0, 0x05040000}, {8, qpn}}), kOk);
  EXPECT_EQ(run(16, {{0, 0x05070000}, {8, qpn}}), kOk);  // 2ERR
  EXPECT_EQ(hca.find_qp(qpn)->state, QpState::kErr);
  EXPECT_EQ(run(16, {{0, 0x050a0000}, {8, qpn}}), kOk);  // 2RST
  EXPECT_EQ(hca.find_qp(qpn)->state, QpState::kReset);
}

// A program may end as soon as it has its last message: the peer must get its acknowledgement all the same.
TEST_F(HcaTest, WhatAQpReceivedIsAcknowledgedBeforeItLeavesItsState) {
  const auto gone = [&](std::uint32_t opcode) {
    const auto buffer = page();
    const std::uint32_t qpn = loop(buffer, 1);
    const auto wqe = send_wqe(buffer, 0);
    put<std::uint32_t>(wqe, 0, 0x08);  // RDMA WRITE of nothing
    put<std::uint32_t>(wqe, 4, qpn << 8 | 2);
    put<std::uint32_t>(wqe, 8, 0x08);
    put<std::uint32_t>(records, 64 + 4, 1);
    wire.log.clear();
    wire.keep_log = true;
    hca.ring(uar, 0x800, 1);
    hca.poll();
    EXPECT_EQ(wire.log.size(), 1u);  // the request has come, and its acknowledgement waits for the next pass
    EXPECT_EQ(run_on(opcode, qpn), kOk);
    ASSERT_EQ(wire.log.size(), 2u);
    EXPECT_EQ(wire.log[1][0], std::byte{0x11});  // RC Acknowledge
  };
  for (const std::uint32_t opcode : {0x050au, 0x0507u, 0x0501u}) {  // 2RST, 2ERR, DESTROY
    SCOPED_TRACE(opcode);
    gone(opcode);
  }
}

TEST_F(HcaTest, MkeysCheckEachAccess) {
  const auto region = page();
  // Local write and remote read, tag 0x5a, iova 0x10100 for 256 bytes.
  ASSERT_EQ(run(0,
                {{0, 0x02000000},
                 {0x10, 1u << 12 | 1u << 11 | 1u << 8},
                 {0x14, 0xffffff5a},
                 {0x1c, pd},
                 {0x24, 0x10100},
                 {0x2c, 256},
                 {0x44, 1},
                 {0x48, 12},
                 {0x60, 1}},
                {address_of(region), 0}),
            kOk);
  const std::uint32_t key = number() << 8 | 0x5a;
  std::vector<DmaRange> ranges;
  EXPECT_EQ(hca.resolve(key, pd, 0x10110, 0x20, Access::kLocalWrite, ranges), MkeyFault::kNone);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].address, address_of(region) + 0x110);
  EXPECT_EQ(ranges[0].bytes, 0x20u);
  EXPECT_EQ(hca.resolve(key, pd, 0x10100, 256, Access::kRemoteRead, ranges), MkeyFault::kNone);
  EXPECT_EQ(hca.resolve(key, pd, 0x10100, 257, Access::kRemoteRead, ranges), MkeyFault::kOutOfBounds);
  EXPECT_EQ(hca.resolve(key, pd, 0x100ff, 1, Access::kRemoteRead, ranges), MkeyFault::kOutOfBounds);
  EXPECT_EQ(hca.resolve(key, pd, ~0ull, 2, Access::kRemoteRead, ranges), MkeyFault::kOutOfBounds);
  EXPECT_EQ(hca.resolve(key, pd, 0x10100, 8, Access::kRemoteWrite, ranges), MkeyFault::kNoRight);
  EXPECT_EQ(hca.resolve(key, pd, 0x10100, 8, Access::kLocalRead, ranges), MkeyFault::kNoRight);
  EXPECT_EQ(hca.resolve(key, pd + 1, 0x10100, 8, Access::kRemoteRead, ranges), MkeyFault::kWrongPd);
  EXPECT_EQ(hca.resolve(key ^ 1, pd, 0x10100, 8, Access::kRemoteRead, ranges), MkeyFault::kNoSuchKey);
  EXPECT_EQ(run(16, {{0, 0x02020000}, {8, key >> 8}}), kOk);
  EXPECT_EQ(hca.resolve(key, pd, 0x10100, 8, Access::kRemoteRead, ranges), MkeyFault::kNoSuchKey);
}

TEST_F(HcaTest, CqesWrapArmAndOverrun) {
  ASSERT_EQ(create_qp(0), kOk);
  const std::uint32_t qpn = number();
  ASSERT_EQ(run(272, {{0, 0x05020000}, {8, qpn}, {0x54, 0x00010000}}), kOk);  // a QP in RESET has nothing to lose
  Cq& queue_object = *hca.find_qp(qpn)->send_cq;
  std::array<std::byte, 64> cqe{};
  // Two laps: the owner bit of the last byte changes with each.
  for (std::uint32_t i = 0; i < 8; ++i) {
    hca.complete(queue_object, cqe, {}, false);
    EXPECT_EQ(std::to_integer<unsigned>(cq[i % 4 * 64 + 63]), i / 4);
    put<std::uint32_t>(records, 0, i + 1);
  }
  EXPECT_TRUE(raised.empty());
  // EQ armed (consumer 0), CQ armed at index 8: the next CQE raises vector 3 once.
  hca.ring(uar, 0x40, std::uint64_t{eqn << 24} << 32);
  hca.ring(uar, 0x20, std::uint64_t{1u << 28 | 8} << 32 | cqn);
  EXPECT_TRUE(raised.empty());
  hca.complete(queue_object, cqe, {}, false);
  hca.poll();
  EXPECT_EQ(raised, (std::vector<std::uint32_t>{3}));
  EXPECT_EQ(get<std::uint32_t>(eq, 0x38), cqn);
  EXPECT_EQ(std::to_integer<unsigned>(eq[63]), 0u);
  // Three more fill the CQ; the fifth overruns it: CQ error event, QP to ERR.
  for (int i = 0; i < 4; ++i) {
    hca.complete(queue_object, cqe, {}, false);
  }
  hca.poll();
  EXPECT_TRUE(queue_object.in_error);
  EXPECT_EQ(std::to_integer<unsigned>(eq[64 + 1]), 4u);
  EXPECT_EQ(get<std::uint32_t>(eq, 64 + 0x20), cqn);
  EXPECT_EQ(hca.find_qp(qpn)->state, QpState::kErr);
}

}  // namespace
}  // namespace softhca::hca
