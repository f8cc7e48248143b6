// Requests that are built elsewhere or by the device's own opcodes: raw WQEs, copies of memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "driver/qp_geometry.h"
#include "driver/send_builder.h"
#include "tests/driver/soft/pair.h"

namespace umlx5::testing {
namespace {

constexpr std::uint64_t kMemcpyOperation = static_cast<std::uint64_t>(SendOperation::kMemcpy);

class BuildersTest : public SoftTest {};
INSTANTIATE_TEST_SUITE_P(Soft, BuildersTest, ::testing::Values(Topology::kTwoDevices, Topology::kLoopback), name_of);

template <typename T>
void put(std::array<std::byte, 64>& wqe, std::size_t at, T value) {
  value = std::byteswap(value);
  std::memcpy(&wqe[at], &value, sizeof value);
}

// An RDMA WRITE, byte by byte: mlx5dv.h mlx5_wqe_ctrl_seg, mlx5_wqe_raddr_seg, mlx5_wqe_data_seg.
TEST_P(BuildersTest, ARawWqeIsExecuted) {
  Pair pair(options());
  End &a = *pair.a, &b = *pair.b;
  a.fill(0, 200, 9);
  std::array<std::byte, 64> wqe{};
  put(wqe, 0, std::uint32_t{0xffff08});  // the index is the driver's to fill in
  put(wqe, 4, a.qp->qpn() << 8 | 3);
  put(wqe, 8, std::uint32_t{0x08});  // a completion
  put(wqe, 16, b.address_of(4096));
  put(wqe, 24, b.region->rkey());
  put(wqe, 32, std::uint32_t{200});
  put(wqe, 36, a.region->lkey());
  put(wqe, 40, a.address_of(0));
  SendBuilder builder(&a.qp->send_queue());
  for (std::uint64_t i = 0; i < 200; ++i) {  // around the ring
    builder.start();
    builder.raw(wqe.data(), i);
    ASSERT_EQ(builder.complete(), Refusal::kNone);
    const Completion done = a.wait_sends(1).at(0);
    ASSERT_EQ(done.status, CompletionStatus::kSuccess) << describe(done);
    ASSERT_EQ(done.wr_id, i);
    ASSERT_EQ(done.opcode, CompletionOpcode::kRawWqe);
  }
  EXPECT_TRUE(std::equal(a.at(0), a.at(200), b.at(4096)));
  put(wqe, 24, b.region->rkey() ^ 0x100);
  builder.start();
  builder.raw(wqe.data(), 1000);
  ASSERT_EQ(builder.complete(), Refusal::kNone);
  EXPECT_EQ(text(a.wait_sends(1)), "1000 13/88") << "the peer refuses a wrong key";
}

TEST(Builders, TheDeviceCopiesMemory) {
  Machine machine;
  End end(machine.context());
  const auto qp = must(end.pd->create_qp({.send_cq = end.send_cq.get(),
                                          .recv_cq = end.recv_cq.get(),
                                          .capacity = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1},
                                          .dv_send_operations = kMemcpyOperation}));
  must(qp->connect({.gid = end.address(0).gid, .qpn = qp->qpn(), .psn = 7}, 7, {.remote_access = kAllAccess}));
  for (const std::uint64_t bytes : {1u, 63u, 64u, 4096u, 100'000u}) {
    SCOPED_TRACE(bytes);
    end.fill(0, bytes, static_cast<std::uint8_t>(bytes));
    std::memset(end.at(128 * 1024), 0, bytes + 1);
    const MemoryCopy copy{.destination = end.address_of(128 * 1024),
                          .source = end.address_of(0),
                          .destination_lkey = end.region->lkey(),
                          .source_lkey = end.region->lkey(),
                          .length_bytes = bytes};
    must(qp->copy_memory(copy, SendFlag::kSignaled, bytes));
    const Completion done = end.wait_sends(1).at(0);
    ASSERT_EQ(done.status, CompletionStatus::kSuccess) << describe(done);
    EXPECT_EQ(done.opcode, CompletionOpcode::kMemcpy);
    EXPECT_EQ(done.wr_id, bytes);
    EXPECT_TRUE(std::equal(end.at(0), end.at(bytes), end.at(128 * 1024)));
    EXPECT_EQ(*end.at(128 * 1024 + bytes), std::byte{});
  }
  EXPECT_EQ(qp->copy_memory({.length_bytes = 0}, {}, 1).error().errno_value, EINVAL);
  EXPECT_EQ(end.qp->copy_memory({.length_bytes = 1}, {}, 1).error().errno_value, EOPNOTSUPP) << "not created for it";
  MemoryCopy beyond{.destination = end.address_of(End::kMemoryBytes - 4),
                    .source = end.address_of(0),
                    .destination_lkey = end.region->lkey(),
                    .source_lkey = end.region->lkey(),
                    .length_bytes = 8};
  must(qp->copy_memory(beyond, SendFlag::kSignaled, 2));
  EXPECT_EQ(end.wait_sends(1).at(0).status, CompletionStatus::kLocalProtection);
}

}  // namespace
}  // namespace umlx5::testing
