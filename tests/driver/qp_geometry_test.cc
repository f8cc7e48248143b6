#include "driver/qp_geometry.h"

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <string>

#include "tests/driver/size_rows.h"

namespace umlx5 {
namespace {

using testing::bit, testing::kLimits, testing::kRecvRows, testing::kSendRows, testing::RecvRow, testing::SendRow;

QpGeometryRequest send_request(SizedQpType type, std::uint32_t wr, std::uint32_t sge, std::uint32_t inline_bytes,
                               std::optional<std::uint64_t> operations = std::nullopt) {
  return {.type = type,
          .send_operations = operations,
          .max_send_wr = wr,
          .max_send_sge = sge,
          .max_inline_bytes = inline_bytes};
}

class SendRows : public ::testing::TestWithParam<SendRow> {};

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

INSTANTIATE_TEST_SUITE_P(Table, SendRows, ::testing::ValuesIn(kSendRows));

class RecvRows : public ::testing::TestWithParam<RecvRow> {};

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

INSTANTIATE_TEST_SUITE_P(Table, RecvRows, ::testing::ValuesIn(kRecvRows));

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
