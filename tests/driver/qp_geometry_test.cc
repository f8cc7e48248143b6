#include "driver/qp_geometry.h"

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <string>

namespace umlx5 {
namespace {

// As a ConnectX-6 Dx answers alloc_ucontext.
constexpr QueueLimits kLimits{.max_send_wqe_bytes = 1024,
                              .max_recv_wqe_bytes = 512,
                              .max_send_wqebbs = 32768,
                              .max_recv_wr = 32768,
                              .max_srq_recv_wr = 32767,
                              .max_out_of_order_recv_wr = 16384};

QpGeometryRequest send_request(SizedQpType type, std::uint32_t wr, std::uint32_t sge, std::uint32_t inline_bytes,
                               std::optional<std::uint64_t> operations = std::nullopt) {
  return {.type = type,
          .send_operations = operations,
          .max_send_wr = wr,
          .max_send_sge = sge,
          .max_inline_bytes = inline_bytes};
}

struct SendRow {
  SizedQpType type;
  std::optional<std::uint64_t> operations;
  std::uint32_t wr, sge, inline_bytes;
  // Expected; 0 WQE bytes: refused.
  std::uint32_t wqe_bytes, wqebbs, max_wr, max_inline;
};

constexpr std::uint64_t bit(SendOperation operation) { return static_cast<std::uint64_t>(operation); }
constexpr auto kDefault = std::nullopt;

// Values seen with stock libmlx5 and a device whose max_sq_desc_sz is 1024, but for those that need more than the 63
// octowords that the DS field can say.
constexpr SendRow kSendRows[] = {
    {SizedQpType::kRc, kDefault, 1, 1, 0, 256, 4, 1, 60},
    {SizedQpType::kRc, kDefault, 1, 1, 60, 256, 4, 1, 60},
    {SizedQpType::kRc, kDefault, 1, 1, 61, 320, 8, 1, 124},
    {SizedQpType::kRc, kDefault, 1, 1, 220, 448, 8, 1, 252},
    {SizedQpType::kRc, kDefault, 1, 1, 828, 1024, 16, 1, 828},
    {SizedQpType::kRc, kDefault, 1, 1, 829, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 52, 0, 1024, 16, 1, 828},
    {SizedQpType::kRc, kDefault, 1, 53, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 100, 1, 0, 256, 512, 128, 60},
    {SizedQpType::kRc, kDefault, 10, 8, 0, 320, 64, 12, 124},
    {SizedQpType::kRc, kDefault, 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, kDefault, 8192, 1, 0, 256, 32768, 8192, 60},
    {SizedQpType::kRc, kDefault, 8193, 1, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 0x7fffffff / 1024 + 1, 1, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 0xffffffff, 1, 0, 0, 0, 0, 0},
    {SizedQpType::kUc, kDefault, 1, 1, 0, 256, 4, 1, 60},
    {SizedQpType::kXrcSend, kDefault, 1, 1, 0, 256, 4, 1, 44},
    {SizedQpType::kXrcSend, kDefault, 1, 1, 812, 1024, 16, 1, 812},
    {SizedQpType::kXrcSend, kDefault, 1, 1, 813, 0, 0, 0, 0},
    {SizedQpType::kXrcRecv, kDefault, 1, 1, 0, 256, 4, 1, 44},
    {SizedQpType::kDci, kDefault, 1, 1, 0, 256, 4, 1, 12},
    {SizedQpType::kDci, kDefault, 1, 1, 780, 1024, 16, 1, 780},
    {SizedQpType::kDci, kDefault, 1, 1, 781, 0, 0, 0, 0},
    {SizedQpType::kUd, kDefault, 1, 1, 0, 128, 2, 1, 60},
    {SizedQpType::kUd, kDefault, 1, 1, 940, 1024, 16, 1, 940},  // 16 + 48 + 944 = 63 octowords
    {SizedQpType::kUd, kDefault, 1, 1, 941, 0, 0, 0, 0},
    {SizedQpType::kUd, kDefault, 1, 59, 0, 1024, 16, 1, 940},
    {SizedQpType::kUd, kDefault, 1, 60, 0, 0, 0, 0, 0},
    {SizedQpType::kUdUnderlay, kDefault, 1, 1, 0, 128, 2, 1, 12},
    {SizedQpType::kRawPacket, kDefault, 1, 1, 0, 64, 1, 1, 12},
    {SizedQpType::kRawPacket, kDefault, 1, 1, 956, 1024, 16, 1, 956},
    {SizedQpType::kRawPacket, kDefault, 1, 1, 957, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 1, 0, 64, 1, 1, 44},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 1, 988, 1024, 16, 1, 988},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 1, 989, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 62, 0, 1024, 16, 1, 988},
    {SizedQpType::kRc, bit(SendOperation::kSend), 1, 63, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kRdmaWrite), 1, 1, 0, 64, 1, 1, 28},
    {SizedQpType::kRc, bit(SendOperation::kRdmaWrite), 1, 61, 0, 1024, 16, 1, 972},
    {SizedQpType::kRc, bit(SendOperation::kRdmaWrite), 1, 62, 0, 0, 0, 0, 0},
    {SizedQpType::kRc, bit(SendOperation::kRdmaRead), 1, 1, 0, 64, 1, 1, 28},
    {SizedQpType::kRc, bit(SendOperation::kFetchAdd), 1, 1, 0, 64, 1, 1, 12},
    {SizedQpType::kRc, bit(SendOperation::kCompareSwap), 1, 2, 0, 128, 2, 1, 76},
    {SizedQpType::kRc, bit(SendOperation::kBindMemoryWindow), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kLocalInvalidate), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMkeyConfigure), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMkeyList), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMkeyInterleaved), 1, 0, 0, 192, 4, 1, 0},
    {SizedQpType::kRc, bit(SendOperation::kMemcpy), 1, 0, 0, 64, 1, 1, 44},
    {SizedQpType::kRc, bit(SendOperation::kRawWqe), 1, 0, 0, 64, 1, 1, 44},
    // What wraps when it is computed in 32 bits.
    {SizedQpType::kRc, kDefault, 1, 1, 0x7ffffff0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 1, 0x80000000, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 1, 0xfffffff0, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 1, 0xffffffff, 0, 0, 0, 0},
    {SizedQpType::kRc, kDefault, 1, 0x10000001, 0, 0, 0, 0, 0},
    // No send queue: the capacities come back as they were given.
    {SizedQpType::kRc, kDefault, 0, 53, 829, 0, 0, 0, 829},
};

class SendRows : public testing::TestWithParam<SendRow> {};

TEST_P(SendRows, Plan) {
  const SendRow& row = GetParam();
  const auto plan = plan_qp(kLimits, send_request(row.type, row.wr, row.sge, row.inline_bytes, row.operations));
  if (row.wqe_bytes == 0 && row.wr != 0) {
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().errno_value, EINVAL);
    return;
  }
  ASSERT_TRUE(plan) << plan.error().what;
  EXPECT_EQ(plan->send_wqe_bytes, row.wqe_bytes);
  EXPECT_EQ(plan->send_wqebbs, row.wqebbs);
  EXPECT_EQ(plan->max_send_wr, row.max_wr);
  EXPECT_EQ(plan->max_inline_bytes, row.max_inline);
  EXPECT_EQ(plan->max_send_sge, row.sge);
}

INSTANTIATE_TEST_SUITE_P(Table, SendRows, testing::ValuesIn(kSendRows));

struct RecvRow {
  std::uint32_t wr, sge;
  bool out_of_order, signature;
  // Expected; 0 stride: refused.
  std::uint32_t stride_bytes, wqes, max_wr, max_sge;
};

constexpr RecvRow kRecvRows[] = {
    {1, 1, false, false, 16, 4, 4, 1},         {1, 0, false, false, 16, 4, 4, 1},
    {100, 3, false, false, 64, 128, 128, 4},   {32768, 1, false, false, 16, 32768, 32768, 1},
    {32769, 1, false, false, 0, 0, 0, 0},      {1, 32, false, false, 512, 1, 1, 32},
    {1, 33, false, false, 0, 0, 0, 0},         {1, 31, false, true, 512, 1, 1, 31},
    {1, 32, false, true, 0, 0, 0, 0},          {1, 1, false, true, 32, 2, 2, 1},
    {1, 2, false, true, 64, 1, 1, 3},          {1, 1, true, false, 16, 4, 4, 1},
    {2, 1, true, false, 16, 4, 2, 1},          {3, 1, true, false, 16, 8, 4, 1},
    {100, 1, true, false, 16, 256, 128, 1},    {16384, 1, true, false, 16, 32768, 16384, 1},
    {16385, 1, true, false, 0, 0, 0, 0},       {1, 0x10000000, false, false, 0, 0, 0, 0},
    {1, 0x10000001, false, false, 0, 0, 0, 0}, {1, 0xffffffff, false, false, 0, 0, 0, 0},
};

class RecvRows : public testing::TestWithParam<RecvRow> {};

TEST_P(RecvRows, Plan) {
  const RecvRow& row = GetParam();
  const auto plan = plan_qp(kLimits, {.max_recv_wr = row.wr,
                                      .max_recv_sge = row.sge,
                                      .wqe_signature = row.signature,
                                      .out_of_order_receive = row.out_of_order});
  if (row.stride_bytes == 0) {
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().errno_value, EINVAL);
    return;
  }
  ASSERT_TRUE(plan) << plan.error().what;
  EXPECT_EQ(plan->recv_wqe_bytes, row.stride_bytes);
  EXPECT_EQ(1u << plan->recv_wqe_bytes_log2, row.stride_bytes);
  EXPECT_EQ(plan->recv_wqes, row.wqes);
  EXPECT_EQ(plan->max_recv_wr, row.max_wr);
  EXPECT_EQ(plan->max_recv_sge, row.max_sge);
}

INSTANTIATE_TEST_SUITE_P(Table, RecvRows, testing::ValuesIn(kRecvRows));

TEST(QpGeometry, XrcIsNotDoubledForOutOfOrderReceives) {
  const auto plan = plan_qp(
      kLimits, {.type = SizedQpType::kXrcRecv, .max_recv_wr = 100, .max_recv_sge = 1, .out_of_order_receive = true});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->max_recv_wr, 128u);
  EXPECT_EQ(plan->recv_wqes, 128u);
}

TEST(QpGeometry, ReceiveQueueComesFirst) {
  const auto plan = plan_qp(kLimits, {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->recv_offset_bytes, 0u);
  EXPECT_EQ(plan->send_offset_bytes, 64u);
  EXPECT_EQ(plan->buffer_bytes, 64u + 1024u);
  EXPECT_FALSE(plan->separate_send_buffer);
}

TEST(QpGeometry, RawPacketAndUnderlayHaveASendBufferOfTheirOwn) {
  for (const SizedQpType type : {SizedQpType::kRawPacket, SizedQpType::kUdUnderlay}) {
    const auto plan =
        plan_qp(kLimits, {.type = type, .max_send_wr = 4, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1});
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->separate_send_buffer);
    EXPECT_EQ(plan->buffer_bytes, 128u);
    EXPECT_EQ(plan->send_offset_bytes, 0u);
    EXPECT_EQ(plan->send_buffer_bytes, plan->send_wqebbs * 64u);
  }
}

TEST(QpGeometry, NoQueues) {
  const auto plan = plan_qp(kLimits, {});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->buffer_bytes, 0u);
  EXPECT_EQ(plan->send_wqebbs, 0u);
  EXPECT_EQ(plan->recv_wqes, 0u);
}

TEST(QpGeometry, SharedReceiveQueueReplacesTheReceiveQueueButTheCountIsChecked) {
  auto plan = plan_qp(kLimits, {.max_recv_wr = 100, .max_recv_sge = 100000, .has_srq = true});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->recv_wqes, 0u);
  EXPECT_EQ(plan->max_recv_wr, 0u);
  plan = plan_qp(kLimits, {.max_recv_wr = 32769, .max_recv_sge = 1, .has_srq = true});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().errno_value, EINVAL);
}

TEST(QpGeometry, XrcSendNeverReceives) {
  const auto plan = plan_qp(
      kLimits,
      {.type = SizedQpType::kXrcSend, .max_send_wr = 1, .max_recv_wr = 100, .max_send_sge = 1, .max_recv_sge = 4});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->recv_wqes, 0u);
  EXPECT_EQ(plan->send_offset_bytes, 0u);
}

TEST(QpGeometry, DctHasNoQueues) {
  const auto plan = plan_qp(kLimits, {.type = SizedQpType::kDct, .max_send_wr = 1000000, .max_recv_wr = 1000000});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->buffer_bytes, 0u);
}

TEST(QpGeometry, TsoHeaderTakesRoomFromTheGatherListAndNotFromInlineData) {
  QpGeometryRequest request = send_request(SizedQpType::kRawPacket, 1, 1, 0);
  request.max_tso_header_bytes = 54;  // Ethernet, IPv4, TCP; 64 with padding
  auto plan = plan_qp(kLimits, request);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->send_wqe_bytes, 128u);             // 16 + 32 + 64 + 16
  EXPECT_EQ(plan->max_inline_bytes, 128u - 48 - 4);  // the header is not subtracted
  request.max_tso_header_bytes = 0xfffffff1;
  ASSERT_FALSE(plan_qp(kLimits, request));
  request.type = SizedQpType::kRc;
  request.max_tso_header_bytes = 54;
  plan = plan_qp(kLimits, request);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().what.find("only a RAW_PACKET QP"), std::string::npos) << plan.error().what;
}

TEST(QpGeometry, RefusalsNameFieldValueAndLimit) {
  auto text = [](const QpGeometryRequest& request) { return plan_qp(kLimits, request).error().what; };
  EXPECT_EQ(text(send_request(SizedQpType::kRc, 1, 53, 0)),
            "QP create: max_send_sge 53 does not fit a 1024-byte WQE of RC (device's max_sq_desc_sz; a WQE has at most "
            "63 octowords) with 192 bytes of overhead; at most 52");
  EXPECT_EQ(text(send_request(SizedQpType::kRc, 1, 1, 829)),
            "QP create: max_inline_data 829 does not fit a 1024-byte WQE of RC (device's max_sq_desc_sz; a WQE has at "
            "most 63 octowords) with 192 bytes of overhead; at most 828");
  EXPECT_EQ(text(send_request(SizedQpType::kRc, 8193, 1, 0)),
            "QP create: max_send_wr 8193 with WQEs of 256 bytes needs a ring of 65536 64-byte blocks; at most 32768 "
            "(device's max_send_wqebb), which holds 8192");
  EXPECT_EQ(text({.max_recv_wr = 32769}),
            "QP create: max_recv_wr 32769 is too many; at most 32768 (device's max_recv_wr)");
  EXPECT_EQ(text({.max_recv_wr = 1, .max_recv_sge = 33}),
            "QP create: max_recv_sge 33 needs a receive WQE of 528 bytes; at most 512 (device's max_rq_desc_sz), which "
            "holds 32");
}

TEST(QpGeometry, EveryPlanKeepsItsInvariants) {
  for (std::uint32_t sge = 0; sge <= 63; ++sge) {
    for (std::uint32_t inline_bytes = 0; inline_bytes <= 1024; inline_bytes += 7) {
      for (const std::uint64_t operations :
           {bit(SendOperation::kSend), bit(SendOperation::kRdmaWrite), bit(SendOperation::kFetchAdd),
            bit(SendOperation::kBindMemoryWindow), SendOperation::kSend | SendOperation::kRdmaRead}) {
        const auto plan = plan_qp(kLimits, send_request(SizedQpType::kRc, 5, sge, inline_bytes, operations));
        if (!plan) {
          continue;
        }
        EXPECT_GE(plan->max_send_wr, 5u);
        EXPECT_GE(plan->max_inline_bytes, inline_bytes);
        EXPECT_EQ(plan->send_wqe_bytes % 64, 0u);
        EXPECT_LE(std::uint64_t{plan->max_send_wr} * plan->send_wqe_bytes, plan->send_wqebbs * 64u);
        // What was given can be asked for, and gives the same.
        const auto again = plan_qp(
            kLimits, send_request(SizedQpType::kRc, plan->max_send_wr, sge, plan->max_inline_bytes, operations));
        ASSERT_TRUE(again) << again.error().what;
        EXPECT_EQ(again->send_wqe_bytes, plan->send_wqe_bytes);
        EXPECT_EQ(again->max_inline_bytes, plan->max_inline_bytes);
      }
    }
  }
}

TEST(SrqGeometry, Table) {
  const auto plan = plan_srq(kLimits, 100, 2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->max_wr, 127u);
  EXPECT_EQ(plan->max_sge, 3u);
  EXPECT_EQ(plan->wqe_bytes, 64u);
  EXPECT_EQ(plan->ring_wqes, 128u);
  EXPECT_EQ(plan->buffer_wqes, 256u);  // 2 * 100 + 1
  const auto largest = plan_srq(kLimits, 32767, 1);
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->buffer_wqes, 32768u);  // no room for a wait queue
  EXPECT_EQ(largest->max_wr, 32767u);
  EXPECT_EQ(largest->wqe_bytes, 32u);
  EXPECT_EQ(plan_srq(kLimits, 32768, 1).error().errno_value, EINVAL);
  EXPECT_EQ(plan_srq(kLimits, 1, 33).error().errno_value, EINVAL);
  QueueLimits few = kLimits;
  few.max_recv_wr = 16;
  EXPECT_EQ(plan_srq(few, 1, 1).error().errno_value, EINVAL);
}

TEST(CqGeometry, Table) {
  EXPECT_EQ(plan_cq(1).value(), 2u);
  EXPECT_EQ(plan_cq(100).value(), 128u);
  EXPECT_EQ(plan_cq(127).value(), 128u);
  EXPECT_EQ(plan_cq(128).value(), 256u);
  EXPECT_EQ(plan_cq((1u << 24) - 1).value(), 1u << 24);
  EXPECT_EQ(plan_cq(0).error().errno_value, EINVAL);
  EXPECT_EQ(plan_cq(1u << 24).error().errno_value, EINVAL);
  EXPECT_EQ(plan_cq(0xffffffff).error().errno_value, EINVAL);
}

TEST(SendOperation, ValuesAreTheVerbs) {
  EXPECT_EQ(bit(SendOperation::kRdmaWrite), IBV_QP_EX_WITH_RDMA_WRITE);
  EXPECT_EQ(bit(SendOperation::kRdmaWriteWithImm), IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(bit(SendOperation::kSend), IBV_QP_EX_WITH_SEND);
  EXPECT_EQ(bit(SendOperation::kSendWithImm), IBV_QP_EX_WITH_SEND_WITH_IMM);
  EXPECT_EQ(bit(SendOperation::kRdmaRead), IBV_QP_EX_WITH_RDMA_READ);
  EXPECT_EQ(bit(SendOperation::kCompareSwap), IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
  EXPECT_EQ(bit(SendOperation::kFetchAdd), IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(bit(SendOperation::kLocalInvalidate), IBV_QP_EX_WITH_LOCAL_INV);
  EXPECT_EQ(bit(SendOperation::kBindMemoryWindow), IBV_QP_EX_WITH_BIND_MW);
  EXPECT_EQ(bit(SendOperation::kSendWithInvalidate), IBV_QP_EX_WITH_SEND_WITH_INV);
  EXPECT_EQ(bit(SendOperation::kTso), IBV_QP_EX_WITH_TSO);
  EXPECT_EQ(bit(SendOperation::kMkeyInterleaved) >> 32, MLX5DV_QP_EX_WITH_MR_INTERLEAVED);
  EXPECT_EQ(bit(SendOperation::kMkeyList) >> 32, MLX5DV_QP_EX_WITH_MR_LIST);
  EXPECT_EQ(bit(SendOperation::kMkeyConfigure) >> 32, MLX5DV_QP_EX_WITH_MKEY_CONFIGURE);
  EXPECT_EQ(bit(SendOperation::kRawWqe) >> 32, MLX5DV_QP_EX_WITH_RAW_WQE);
  EXPECT_EQ(bit(SendOperation::kMemcpy) >> 32, MLX5DV_QP_EX_WITH_MEMCPY);
}

}  // namespace
}  // namespace umlx5
