// Descriptions that compile, with their sizes, and those that must not. Expected sizes as in qp_geometry_test.cc.
#include "driver/qp_description.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using enum SendOperation;
using testing::FakeKernel;
using testing::open_fake;

constexpr std::uint64_t only(SendOperation operation) { return static_cast<std::uint64_t>(operation); }

// Whether describe() of it is a constant: what is not does not compile.
template <QpDescription Qp>
concept Compiles = requires {
  typename std::bool_constant<(describe(Qp), true)>;
};

// ---- What compiles ----

constexpr auto kWriter = describe({.operations = kRdmaWrite | kRdmaRead, .max_send_wr = 256, .max_inline_bytes = 28});
static_assert(kWriter.send_wqe_bytes == 64);
static_assert(kWriter.capacity.max_send_wr == 256 && kWriter.capacity.max_inline_bytes == 28);
static_assert(kWriter.recv_wqe_bytes == 0 && kWriter.capacity.max_recv_wr == 0);

constexpr auto kEverything = describe({.operations = kSend | kRdmaWrite | kBindMemoryWindow, .max_send_wr = 100});
static_assert(kEverything.send_wqe_bytes == 256 && kEverything.capacity.max_send_wr == 128);

constexpr auto kReceiver =
    describe({.operations = only(kSend), .max_send_wr = 1, .max_recv_wr = 100, .max_recv_sge = 3});
static_assert(kReceiver.send_wqe_bytes == 64);
static_assert(kReceiver.recv_wqe_bytes == 64 && kReceiver.capacity.max_recv_wr == 128 &&
              kReceiver.capacity.max_recv_sge == 4);

static_assert(Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .max_send_sge = 62}>);
static_assert(Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .max_inline_bytes = 988}>);
static_assert(Compiles<QpDescription{.operations = kSend | kMemcpy, .max_send_wr = 1}>);
static_assert(Compiles<QpDescription{
                  .type = QpType::kDriver, .dc_type = DcType::kDci, .operations = only(kRdmaWrite), .max_send_wr = 1}>);
static_assert(Compiles<QpDescription{.type = QpType::kDriver, .dc_type = DcType::kDct, .has_srq = true}>);
static_assert(Compiles<QpDescription{.type = QpType::kXrcRecv}>);
static_assert(Compiles<QpDescription{.type = QpType::kRawPacket, .max_recv_wr = 1, .dv_create_flags = 7}>);
static_assert(Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 1 << 5}>);

// ---- What must not ----

// Operations that the type does not have, or has not been told.
static_assert(!Compiles<QpDescription{.max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kUc, .operations = only(kRdmaRead), .max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kUd, .operations = only(kRdmaWrite), .max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kUd, .operations = kSend | kTso, .max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.operations = only(kTso), .max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kXrcSend, .operations = kSend | kMemcpy, .max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kXrcRecv, .operations = only(kSend)}>);
static_assert(!Compiles<QpDescription{
                  .type = QpType::kDriver, .dc_type = DcType::kDct, .operations = only(kSend), .has_srq = true}>);
// Types.
static_assert(!Compiles<QpDescription{.type = QpType{7}}>);
static_assert(!Compiles<QpDescription{.type = QpType::kDriver, .operations = only(kSend), .max_send_wr = 1}>);
static_assert(!Compiles<QpDescription{.dc_type = DcType::kDci, .operations = only(kSend), .max_send_wr = 1}>);
// Flags.
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 1 << 8}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 3 << 3}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 1 << 0}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 1 << 1}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 1 << 2}>);
static_assert(!Compiles<QpDescription{
                  .type = QpType::kUc, .operations = only(kSend), .max_send_wr = 1, .dv_create_flags = 1 << 5}>);
static_assert(!Compiles<QpDescription{.type = QpType::kRawPacket, .max_recv_wr = 1, .dv_create_flags = 1 << 7}>);
static_assert(!Compiles<QpDescription{
                  .type = QpType::kDriver, .dc_type = DcType::kDct, .dv_create_flags = 1 << 4, .has_srq = true}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .create_flags = 1 << 9}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .create_flags = 1 << 13}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .max_tso_header_bytes = 54}>);
// Sizes: 63 octowords, a stride of 2048 bytes, rings of 16-bit counters.
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .max_send_sge = 63}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .max_inline_bytes = 989}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 1, .max_inline_bytes = 0x80000000}>);
static_assert(!Compiles<QpDescription{.operations = only(kSend), .max_send_wr = 65537}>);
static_assert(!Compiles<QpDescription{.max_recv_wr = 65537}>);
static_assert(!Compiles<QpDescription{.max_recv_wr = 1, .max_recv_sge = 129}>);
static_assert(!Compiles<QpDescription{.max_recv_wr = 1, .max_recv_sge = 0x10000001}>);
// Queues that the type does not have.
static_assert(!Compiles<QpDescription{.type = QpType::kXrcSend, .max_recv_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kXrcRecv, .max_recv_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kDriver, .dc_type = DcType::kDci, .max_recv_wr = 1}>);
static_assert(!Compiles<QpDescription{.type = QpType::kDriver, .dc_type = DcType::kDct}>);
static_assert(!Compiles<QpDescription{.max_recv_wr = 1, .has_srq = true}>);
static_assert(!Compiles<QpDescription{.type = QpType::kRawPacket}>);
static_assert(!Compiles<QpDescription{.type = QpType::kXrcSend, .has_srq = true}>);

// ---- At run time ----

TEST(QpDescription, IsWhatTheDeviceGives) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 63});
  auto qp = pd->create_qp(kWriter.options(cq.get(), cq.get()));
  ASSERT_TRUE(qp) << qp.error().message();
  EXPECT_EQ(kernel.create_qp.sq_wqe_count, 256u);  // one block each
  EXPECT_EQ((*qp)->capacity().max_send_wr, kWriter.capacity.max_send_wr);
  EXPECT_EQ((*qp)->capacity().max_inline_bytes, kWriter.capacity.max_inline_bytes);
  EXPECT_EQ((*qp)->send_queue().config().max_wqe_bytes, kWriter.send_wqe_bytes);
  auto receiver = *pd->create_qp(kReceiver.options(cq.get(), cq.get()));
  EXPECT_EQ(kernel.create_qp.rq_wqe_count, 128u);
  EXPECT_EQ(1u << kernel.create_qp.rq_wqe_shift, kReceiver.recv_wqe_bytes);
  EXPECT_EQ(receiver->capacity().max_recv_sge, kReceiver.capacity.max_recv_sge);
}

}  // namespace
}  // namespace umlx5
