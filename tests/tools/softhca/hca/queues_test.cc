// Completion and event queues as bytes in memory (positions from mlx5dv.h and mlx5_ifc.h), and the doorbells that
// software stores in UAR pages.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/tools/softhca/hca/hca_rig.h"

namespace softhca::hca {
namespace {

using namespace harness;

constexpr std::uint64_t kAllEvents = ~std::uint64_t{0};
// Offset of op_own in a CQE, and its format bits MLX5_INLINE_SCATTER_32 and _64.
constexpr std::size_t kOpOwn = 63;
constexpr unsigned kInline32 = 0x4, kInline64 = 0x8;

unsigned byte_of(std::span<const std::byte> memory, std::size_t offset) {
  return std::to_integer<unsigned>(memory[offset]);
}

struct QueuesTest : ::testing::Test, ReadyRig {
  // A QP whose queues report to CQ `number`: it gives the test the Cq.
  Cq& object_of(std::uint32_t number, unsigned record_index) {
    Words words = qp_words(pd, uar, number, record(record_index));
    EXPECT_EQ(run(0, words, {address_of(queue)}), kOk);
    return *hca.find_qp(this->number())->send_cq;
  }
  void consume(unsigned record_index, std::uint32_t consumer) { put(records, record_index * 64, consumer); }
  // Arms the CQ at the consumer index by a store to the CQ's doorbell register.
  void arm(std::uint32_t sequence, bool solicited, std::uint32_t index) {
    hca.ring(uar, 0x20, std::uint64_t{sequence << 28 | std::uint32_t{solicited} << 24 | index} << 32 | cqn);
  }
  void arm_eq(std::uint32_t consumer) { hca.ring(uar, 0x40, std::uint64_t{eqn << 24 | consumer} << 32); }
  std::size_t raises() {
    hca.poll();
    const std::size_t count = raised.size();
    raised.clear();
    return count;
  }

  std::array<std::byte, 64> cqe{};
};

TEST_F(QueuesTest, LargeEntriesCarryDataBeforeTheCqe) {
  const auto buffer = page();
  ASSERT_EQ(run(0, cq_words(uar, eqn, 2, record(2), 1), {address_of(buffer)}), kOk);
  Cq& large = object_of(number(), 3);
  cqe[0] = std::byte{0x77};
  Bytes data(64);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i + 1);
  }
  hca.complete(large, cqe, {}, false);
  EXPECT_EQ(byte_of(buffer, 64), 0x77u);
  EXPECT_EQ(byte_of(buffer, 64 + kOpOwn), 0u);
  hca.complete(large, cqe, std::span(data).first(32), false);
  EXPECT_EQ(byte_of(buffer, 128 + 64), 1u);
  EXPECT_EQ(byte_of(buffer, 128 + 64 + 31), 32u);
  EXPECT_EQ(byte_of(buffer, 128 + 64 + kOpOwn), kInline32);
  hca.complete(large, cqe, data, false);
  EXPECT_EQ(byte_of(buffer, 256), 1u);
  EXPECT_EQ(byte_of(buffer, 256 + 63), 64u);
  EXPECT_EQ(byte_of(buffer, 256 + 64), 0x77u);
  EXPECT_EQ(byte_of(buffer, 256 + 64 + kOpOwn), kInline64);
}

TEST_F(QueuesTest, LargeEntriesMayCrossAPage) {
  const auto first = page(), second = page();
  Words words = cq_words(uar, eqn, 5, record(2), 1);
  words.emplace_back(0x18, 1u << 6);  // starts 64 bytes into the first page
  ASSERT_EQ(run(0, words, {address_of(first), address_of(second)}), kOk);
  Cq& large = object_of(number(), 3);
  Bytes data(64, std::byte{0xdd});
  cqe[0] = std::byte{0x77};
  for (std::uint32_t i = 0; i < 32; ++i) {
    hca.complete(large, cqe, data, false);
  }
  EXPECT_FALSE(large.in_error);
  EXPECT_EQ(byte_of(first, 4096 - 64), 0xddu);
  EXPECT_EQ(byte_of(first, 4095), 0xddu);
  EXPECT_EQ(byte_of(second, 0), 0x77u);
  EXPECT_EQ(byte_of(second, kOpOwn), kInline64);
  EXPECT_EQ(byte_of(second, 64), 0u);
}

TEST_F(QueuesTest, ResizeEndsTheOldBufferAndGoesOnInTheNew) {
  Cq& small = object_of(cqn, 1);
  hca.complete(small, cqe, {}, false);
  hca.complete(small, cqe, {}, false);
  const auto buffer = page();
  const auto resize = [&](std::uint32_t log_entries, std::uint32_t field_select) {
    return run(0, {{0, 0x0403u << 16}, {4, 1}, {8, cqn}, {0xc, field_select}, {0x1c, log_entries << 24}},
               {address_of(buffer)});
  };
  EXPECT_EQ(resize(3, 0x6), kBadParam);  // the size is not selected
  EXPECT_EQ(resize(1, 0x7), kBadSizeOutstandingCqes);
  EXPECT_EQ(resize(7, 0x7), kBadInputLength);  // 8 KB in one page
  ASSERT_EQ(resize(3, 0x7), kOk);
  EXPECT_EQ(byte_of(cq, 2 * 64 + kOpOwn), 0x50u);  // MLX5_CQE_RESIZE_CQ 5, owner 0
  put<std::uint32_t>(buffer, 3 * 64, 0xffffffff);
  cqe[0] = std::byte{0x66};
  hca.complete(small, cqe, {}, false);
  EXPECT_EQ(byte_of(buffer, 3 * 64), 0x66u);
  ASSERT_EQ(run_on(0x402, cqn), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x1c) >> 24 & 0x1f, 3u);
  EXPECT_EQ(get<std::uint32_t>(out, 0x3c), 4u);  // producer counter
}

TEST_F(QueuesTest, ResizeNeedsAFreeEntry) {
  Cq& small = object_of(cqn, 1);
  for (int i = 0; i < 4; ++i) {
    hca.complete(small, cqe, {}, false);
  }
  const auto buffer = page();
  EXPECT_EQ(run(0, {{0, 0x0403u << 16}, {4, 1}, {8, cqn}, {0xc, 7}, {0x1c, 3u << 24}}, {address_of(buffer)}),
            kBadResState);
  consume(0, 1);
  EXPECT_EQ(run(0, {{0, 0x0403u << 16}, {4, 1}, {8, cqn}, {0xc, 7}, {0x1c, 3u << 24}}, {address_of(buffer)}), kOk);
}

TEST_F(QueuesTest, SolicitedArmWaitsForASolicitedOrFailedCompletion) {
  Cq& object = object_of(cqn, 1);
  arm_eq(0);
  arm(1, true, 0);
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 0u);
  hca.complete(object, cqe, {}, true);
  EXPECT_EQ(raises(), 1u);
  consume(0, 2);
  arm_eq(1);
  arm(2, true, 2);
  cqe[kOpOwn] = std::byte{0xd0};  // MLX5_CQE_REQ_ERR
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 1u);
}

TEST_F(QueuesTest, OneEventForEachSequenceNumber) {
  Cq& object = object_of(cqn, 1);
  arm_eq(0);
  arm(1, false, 0);
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 1u);
  arm_eq(1);
  arm(1, false, 1);  // that request has had its event
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 0u);
  arm(2, false, 1);  // there is a CQE behind index 1 already
  EXPECT_EQ(raises(), 1u);
}

// perftest arms before it polls: an event for the CQE that the last event has told of would come too early for the next.
TEST_F(QueuesTest, NoEventTellsOfACqeAgain) {
  Cq& object = object_of(cqn, 1);
  arm_eq(0);
  arm(1, false, 0);
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 1u);
  arm_eq(1);
  arm(2, false, 0);
  EXPECT_EQ(raises(), 0u);
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 1u);
}

TEST_F(QueuesTest, IgnoredOverrunOverwrites) {
  Cq& object = object_of(cqn, 1);
  // MODIFY_CQ: overrun ignore is bit 2 of the field select, oi bit 17 of the context.
  ASSERT_EQ(run(0, {{0, 0x0403u << 16}, {8, cqn}, {0xc, 1u << 2}, {0x10, 1u << 17}}, {0}), kOk);
  for (int i = 0; i < 5; ++i) {
    hca.complete(object, cqe, {}, false);
  }
  EXPECT_FALSE(object.in_error);
  EXPECT_EQ(byte_of(cq, kOpOwn), 1u);
}

TEST_F(QueuesTest, UnwritableEntryFailsTheCq) {
  Cq& object = object_of(cqn, 1);
  memory.unmap(cq);
  hca.complete(object, cqe, {}, false);
  EXPECT_TRUE(object.in_error);
  EXPECT_EQ(byte_of(eq, 1), 4u);           // CQ error
  EXPECT_EQ(byte_of(eq, 0x20 + 0xb), 2u);  // its syndrome: access violation
  hca.complete(object, cqe, {}, false);    // nothing more
  EXPECT_EQ(byte_of(eq, 64 + 1), 0u);
}

// ---- Event queues ----

struct EventsTest : ::testing::Test, ReadyRig {
  EventsTest() : ReadyRig(kAllEvents) {}
};

TEST_F(EventsTest, OwnerBitChangesWithEachLap) {
  for (std::uint32_t i = 0; i < 16; ++i) {
    hca.async_event(0x05, i, 0);  // WQ catastrophic error
    EXPECT_EQ(byte_of(eq, i % 8 * 64 + 63), i / 8) << i;
    EXPECT_EQ(get<std::uint32_t>(eq, i % 8 * 64 + 0x38) & 0xffffff, i);
    hca.ring(uar, 0x48, std::uint64_t{eqn << 24 | (i + 1)} << 32);
  }
}

TEST_F(EventsTest, OverrunLosesEventsAndSaysSo) {
  for (std::uint32_t i = 0; i < 9; ++i) {
    hca.async_event(0x05, i, 0);
  }
  EXPECT_EQ(get<std::uint32_t>(eq, 0x38) & 0xffffff, 0u) << "the ninth is not written over the first";
  ASSERT_EQ(run_on(0x303, eqn), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x10) >> 28, 0xau);
  // Room again: later events come.
  hca.ring(uar, 0x48, std::uint64_t{eqn << 24 | 8} << 32);
  hca.async_event(0x05, 77, 0);
  EXPECT_EQ(get<std::uint32_t>(eq, 0x38) & 0xffffff, 77u);
}

TEST_F(EventsTest, VectorIsRaisedOnceForEachArm) {
  hca.async_event(0x05, 1, 0);
  hca.poll();
  EXPECT_TRUE(raised.empty());
  hca.ring(uar, 0x40, std::uint64_t{eqn << 24} << 32);  // an event waits already
  EXPECT_EQ(raised, (std::vector<std::uint32_t>{kRigVector}));
  hca.async_event(0x05, 2, 0);
  hca.poll();
  EXPECT_EQ(raised.size(), 1u);
}

// ---- Doorbells in memory ----

TEST_F(QueuesTest, OneRegisterServesTwoSendQueues) {
  const auto first = page(), second = page();
  const std::uint32_t a = loop(first, 2), b = loop(second, 3);
  ASSERT_NE(a, 0u);
  ASSERT_NE(b, 0u);
  poll_all();  // a QP that enters RTS is looked at once
  put_nop(a, first, 2, 0);
  put_nop(b, second, 3, 0);
  poll_all();
  EXPECT_EQ(get<std::uint32_t>(cq, 56), 0u) << "no doorbell rang";
  // Both stored to one register, and the device sees but the later store.
  put<std::uint64_t>(hca.uar(uar), 0x800, get<std::uint64_t>(send_wqe(second, 0), 0) | 1);
  EXPECT_TRUE(hca.doorbell_waits());
  poll_all();
  EXPECT_FALSE(hca.doorbell_waits());
  EXPECT_EQ(get<std::uint32_t>(cq, 56), a);
  EXPECT_EQ(get<std::uint32_t>(cq, 64 + 56), b);
  ASSERT_EQ(run_on(0x50b, a), kOk);
  EXPECT_EQ(get<std::uint32_t>(out, 0x18 + 0xb4), 1u << 16) << "one WQEBB consumed";
}

TEST_F(QueuesTest, EverySendRegisterIsLookedAt) {
  const auto buffer = page();
  const std::uint32_t qpn = loop(buffer, 2);
  ASSERT_NE(qpn, 0u);
  std::uint16_t index = 0;
  for (const std::uint32_t offset : {0x800u, 0x900u, 0xa00u, 0xb00u}) {
    put_nop(qpn, buffer, 2, index);
    // The low half of a register that a 32-bit machine writes last, or the whole.
    put<std::uint32_t>(hca.uar(uar), offset + (index % 2) * 4, 0x1234);
    poll_all();
    EXPECT_EQ(get<std::uint16_t>(cq, index * 64u + 60), index) << offset;
    ++index;
    consume(0, index);
  }
}

TEST_F(QueuesTest, ArmRegistersInMemory) {
  Cq& object = object_of(cqn, 1);
  put<std::uint32_t>(hca.uar(uar), 0x40, eqn << 24);
  put<std::uint64_t>(hca.uar(uar), 0x20, std::uint64_t{1u << 28} << 32 | cqn);
  EXPECT_TRUE(hca.poll());
  hca.complete(object, cqe, {}, false);
  EXPECT_EQ(raises(), 1u);
  EXPECT_EQ(get<std::uint64_t>(hca.uar(uar), 0x20), 0u);
}

TEST_F(QueuesTest, ReservedLkeyServesQueuesThatMayUseIt) {
  const auto data = page(), target = page();
  put<std::uint64_t>(data, 0, 0x1122334455667788);
  ASSERT_EQ(run(0, mkey_words(pd, address_of(target), 4096), {address_of(target), 0}), kOk);
  const std::uint32_t rkey = number() << 8 | 0x5a;
  ASSERT_EQ(run_on(0x203, 0), kOk);
  const std::uint32_t reserved = get<std::uint32_t>(out, 0xc);
  unsigned entry = 0;
  for (const bool allowed : {false, true}) {
    const auto buffer = page();
    const std::uint32_t plain_sizes = 2u << 19 | 2u << 16 | 4u << 11;
    const std::uint32_t qpn = loop(buffer, 2 + entry, {{0x20, plain_sizes | (allowed ? 1u << 4 : 0)}});
    ASSERT_NE(qpn, 0u);
    put_nop(qpn, buffer, 2 + entry, 0);
    const auto wqe = send_wqe(buffer, 0);
    put<std::uint32_t>(wqe, 0, 0x08);  // RDMA WRITE
    put<std::uint32_t>(wqe, 4, qpn << 8 | 3);
    put<std::uint64_t>(wqe, 16, address_of(target));
    put<std::uint32_t>(wqe, 24, rkey);
    put<std::uint32_t>(wqe, 32, 8);
    put<std::uint32_t>(wqe, 36, reserved);
    put<std::uint64_t>(wqe, 40, address_of(data));
    hca.ring(uar, 0x800, 1);
    poll_all();
    // MLX5_CQE_REQ 0, or MLX5_CQE_REQ_ERR 0xd with syndrome local protection 0x04.
    EXPECT_EQ(byte_of(cq, entry * 64 + kOpOwn) >> 4, allowed ? 0x0u : 0xdu);
    if (!allowed) {
      EXPECT_EQ(byte_of(cq, entry * 64 + 55), 0x4u);
    }
    EXPECT_EQ(get<std::uint64_t>(target, 0), allowed ? 0x1122334455667788u : 0u);
    ++entry;
  }
}

}  // namespace
}  // namespace softhca::hca
