// Address handles, shared receive queues, thread domains, regions, windows, and memory from the program.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "driver/ah.h"
#include "driver/memory_window.h"
#include "driver/srq.h"
#include "driver/thread_domain.h"
#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using testing::FakeKernel;
using testing::open_fake;

struct Bench {
  Bench() {
    kernel.ucontext.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
    context = open_fake(kernel);
    pd = *context->alloc_pd();
    cq = *context->create_cq({.entries = 63});
  }
  FakeKernel kernel;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<Cq> cq;
};

uapi::AddressVector destination() {
  uapi::AddressVector address;
  for (std::uint8_t i = 0; i < 16; ++i) {
    address.dgid[i] = static_cast<std::uint8_t>(0xe0 + i);
  }
  address.flow_label = 0x12345;
  address.sgid_index = 5;
  address.hop_limit = 64;
  address.traffic_class = 0x68;
  address.sl = 11;
  address.static_rate = IBV_RATE_10_GBPS;
  address.is_global = true;
  address.port = 1;
  return address;
}

// mlx5dv.h struct mlx5_wqe_av. The UDP source port is that of ibv_flow_label_to_udp_sport(0x12345): 14 bits of the
// label, 0x2345, with the 6 above them, 0x04, over 0xc000. The MAC address is what the kernel said.
TEST(AddressHandle, BytesOnEthernet) {
  Bench bench;
  const auto ah = bench.pd->create_ah(destination());
  ASSERT_TRUE(ah) << ah.error().message();
  const std::array<std::uint8_t, 48> expected = {
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x86, 0,    0xe3, 0x41,
      0,    0,    0,    0,    0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x68, 64,   0x00, 0x51, 0x23, 0x45,
      0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xeb, 0xec, 0xed, 0xee, 0xef};
  EXPECT_EQ(std::memcmp((*ah)->address_vector().data(), expected.data(), 48), 0);
}

TEST(AddressHandle, SourcePortWithoutFlowLabelIsInTheRangeOfRoce) {
  Bench bench;
  uapi::AddressVector address = destination();
  address.flow_label = 0;
  for (int i = 0; i < 100; ++i) {
    const auto ah = *bench.pd->create_ah(address);
    EXPECT_GE(static_cast<unsigned>(ah->address_vector()[14]), 0xc0u);
  }
}

// A LID, all of the SL, the mark of a global address, no MAC address and no request to the kernel.
TEST(AddressHandle, BytesOnInfiniBand) {
  Bench bench;
  bench.kernel.link_layer = 1;
  uapi::AddressVector address = destination();
  address.dlid = 0x1234;
  address.src_path_bits = 0x85;
  const int requests = bench.kernel.requests;
  const auto ah = *bench.pd->create_ah(address);
  EXPECT_EQ(bench.kernel.requests, requests + 1);  // for the port
  const std::array<std::uint8_t, 20> head = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x8b, 0x05, 0x12, 0x34, 0, 0, 0, 0};
  EXPECT_EQ(std::memcmp(ah->address_vector().data(), head.data(), head.size()), 0);
  EXPECT_EQ(testing::big32(ah->address_vector().data() + 28), 0x40512345u);
  address.is_global = false;
  const auto local = *bench.pd->create_ah(address);
  EXPECT_EQ(testing::big32(local->address_vector().data() + 28), 0u);
}

// 100 requests of one SGE: 32 bytes each; twice as many and one more for those that wait, rounded up, and the kernel is
// told one less than there are.
TEST(SharedReceive, TheKernelIsToldTheBuffer) {
  Bench bench;
  auto srq = *bench.pd->create_srq({.max_wr = 100, .max_sge = 1});
  EXPECT_EQ(bench.kernel.srq_max_wr, 255u);
  EXPECT_EQ(srq->max_wr(), 127u);
  EXPECT_EQ(srq->max_sge(), 1u);
  EXPECT_EQ(srq->srqn(), 0x99u);
  EXPECT_EQ(bench.kernel.create_srq.uidx, 0u);
  EXPECT_EQ(bench.kernel.create_srq.buf_addr % 4096, 0u);
  const auto* ring = reinterpret_cast<const std::byte*>(bench.kernel.create_srq.buf_addr);
  EXPECT_EQ(ring[3], std::byte{1});  // linked to the next
  EXPECT_EQ(ring[32 + 3], std::byte{2});
  const Sge sge{.address = 0x1000, .length_bytes = 64, .lkey = 7};
  EXPECT_EQ(srq->post_recv(std::array{RecvWr{.wr_id = 1, .sges = {&sge, 1}}}).posted, 1u);
  EXPECT_EQ(testing::big32(ring + 16), 64u);
  EXPECT_EQ(testing::big32(ring + 20), 7u);
  EXPECT_EQ(testing::big32(reinterpret_cast<const void*>(bench.kernel.create_srq.db_addr)), 1u);
}

TEST(SharedReceive, Refusals) {
  Bench bench;
  EXPECT_EQ(bench.pd->create_srq({.max_wr = 32768}).error().errno_value, EINVAL);             // max_srq_recv_wr
  EXPECT_EQ(bench.pd->create_srq({.max_wr = 1, .max_sge = 33}).error().errno_value, EINVAL);  // max_rq_desc_sz / 16
  EXPECT_EQ(bench.pd->create_srq({.type = SrqType::kXrc, .max_wr = 1}).error().errno_value, EINVAL);
  EXPECT_EQ(bench.pd->create_srq({.type = SrqType{2}, .max_wr = 1}).error().errno_value, EOPNOTSUPP);
}

TEST(ThreadDomain, ItsQueuePairsRingOneRegister) {
  Bench bench;
  auto domain = *bench.context->create_thread_domain();
  const QpOptions options{.send_cq = bench.cq.get(),
                          .recv_cq = bench.cq.get(),
                          .capacity = {.max_send_wr = 4, .max_send_sge = 1},
                          .send_operations = IBV_QP_EX_WITH_SEND,
                          .thread_domain = domain.get()};
  auto first = *bench.pd->create_qp(options), second = *bench.pd->create_qp(options);
  EXPECT_EQ(bench.kernel.create_qp.bfreg_index, domain->uar().page_id());
  std::byte* const doorbell = domain->uar().address();
  EXPECT_EQ(first->send_queue().config().uar.address(), doorbell);
  EXPECT_EQ(second->send_queue().config().uar.address(), doorbell);
  const QpOptions without{.send_cq = bench.cq.get(), .recv_cq = bench.cq.get()};
  auto other = *bench.pd->create_qp(without);
  EXPECT_NE(other->send_queue().config().uar.address(), doorbell);
  // Each post goes to the half whose turn it is.
  for (Qp* qp : {first.get(), second.get()}) {
    EXPECT_TRUE(qp->connect({}, 0, {}));
    EXPECT_EQ(qp->post_send(std::array{SendWr{}}).posted, 1u);
  }
  EXPECT_EQ(testing::big32(doorbell + 4) >> 8, first->qpn());
  EXPECT_EQ(testing::big32(doorbell + 256 + 4) >> 8, second->qpn());
  EXPECT_EQ(domain.destroy().error().errno_value, EBUSY);
  EXPECT_TRUE(first.destroy());
  EXPECT_TRUE(second.destroy());
  EXPECT_TRUE(domain.destroy());
}

TEST(ThreadDomain, AsManyAsTheKernelHasRegisters) {
  Bench bench;
  bench.kernel.uar_pages = 3;  // one is shared; two registers are in each other
  std::vector<Owned<ThreadDomain>> domains;
  for (int i = 0; i < 4; ++i) {
    domains.push_back(*bench.context->create_thread_domain());
  }
  EXPECT_EQ(bench.context->create_thread_domain().error().errno_value, ENOMEM);
  EXPECT_TRUE(bench.pd->create_qp({.send_cq = bench.cq.get(), .recv_cq = bench.cq.get()}));  // shares
  domains.pop_back();
  EXPECT_TRUE(bench.context->create_thread_domain());
}

TEST(Region, AddressAndIovaAreIndependent) {
  Bench bench;
  auto region = *bench.pd->register_memory(
      MemoryRequest{.address = 0x10003000, .length_bytes = 8192, .iova = 0x7000, .access = Access::kLocalWrite});
  EXPECT_EQ(bench.kernel.reg_mr.start, 0x10003000u);
  EXPECT_EQ(bench.kernel.reg_mr.hca_va, 0x7000u);
  EXPECT_EQ(bench.kernel.reg_mr.length, 8192u);
  EXPECT_EQ(region->sge(16, 8).address, 0x7010u);
  auto zero_based = *bench.pd->register_memory(MemoryRequest{.address = 0x10003000,
                                                             .length_bytes = 8192,
                                                             .iova = 0x10003000,
                                                             .access = Access::kLocalWrite | Access::kZeroBased});
  EXPECT_EQ(zero_based->sge(16, 8).address, 16u);
}

TEST(Region, ReregistrationChangesWhatIsGiven) {
  Bench bench;
  auto other = *bench.context->alloc_pd();
  std::array<std::byte, 64> memory{};
  auto region = *bench.pd->register_memory(memory, Access::kLocalWrite);
  EXPECT_TRUE(region->reregister({.access = Access::kLocalWrite | Access::kRemoteRead}));
  EXPECT_EQ(bench.kernel.rereg_mr.flags, static_cast<std::uint32_t>(IBV_REREG_MR_CHANGE_ACCESS));
  EXPECT_EQ(bench.kernel.rereg_mr.access_flags,
            static_cast<std::uint32_t>(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(region->lkey(), 0x7700u);
  EXPECT_EQ(region->rkey(), 0x7701u);
  EXPECT_TRUE(region->reregister(
      {.translation = {{.address = 0x5000, .length_bytes = 99, .iova = 0x6000}}, .pd = other.get()}));
  EXPECT_EQ(bench.kernel.rereg_mr.flags,
            static_cast<std::uint32_t>(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD));
  EXPECT_EQ(region->length_bytes(), 99u);
  EXPECT_EQ(region->sge(0, 1).address, 0x6000u);
  EXPECT_EQ(other.destroy().error().errno_value, EBUSY);  // it is in the other PD now
  EXPECT_TRUE(bench.pd.destroy());
  EXPECT_EQ(region->reregister({.access = Access::kRemoteWrite}).error().errno_value, EINVAL);
}

TEST(Window, BelongsToItsPd) {
  Bench bench;
  auto window = *bench.pd->alloc_memory_window(MemoryWindowType::k2);
  EXPECT_NE(window->rkey(), 0u);
  const auto refused = bench.pd.destroy();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("MW with rkey"), std::string::npos) << refused.error().what;
  EXPECT_TRUE(window.destroy());
  EXPECT_TRUE(bench.pd.destroy());
}

// Records what is asked of it.
class Recorder final : public Allocator {
 public:
  std::optional<void*> allocate(MemoryUse use, std::size_t bytes, std::size_t alignment_bytes) override {
    asked.emplace_back(use, bytes, alignment_bytes);
    if (use == leave_to_driver) {
      return std::nullopt;
    }
    if (use == refuse) {
      return nullptr;
    }
    void* const memory = std::aligned_alloc(alignment_bytes, bytes);
    std::memset(memory, 0xa5, bytes);
    live[memory] = use;
    return memory;
  }
  void release(MemoryUse use, void* memory) override {
    EXPECT_EQ(live.at(memory), use);
    live.erase(memory);
    std::free(memory);
  }

  std::vector<std::tuple<MemoryUse, std::size_t, std::size_t>> asked;
  std::map<void*, MemoryUse> live;
  std::optional<MemoryUse> leave_to_driver, refuse;
};

using Asked = std::vector<std::tuple<MemoryUse, std::size_t, std::size_t>>;

// Sizes and alignments that stock libmlx5 asks of a parent domain's allocator.
TEST(CustomMemory, OfQueuePairs) {
  Bench bench;
  Recorder recorder;
  QpOptions options{.send_cq = bench.cq.get(),
                    .recv_cq = bench.cq.get(),
                    .capacity = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
                    .allocator = &recorder};
  auto qp = *bench.pd->create_qp(options);
  EXPECT_EQ(recorder.asked, (Asked{{MemoryUse::kQp, 320, 64}, {MemoryUse::kDoorbellRecord, 8, 8}}));
  EXPECT_TRUE(recorder.live.contains(reinterpret_cast<void*>(bench.kernel.create_qp.buf_addr)));
  EXPECT_TRUE(recorder.live.contains(reinterpret_cast<void*>(bench.kernel.create_qp.db_addr)));
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(bench.kernel.create_qp.db_addr), 0u);
  EXPECT_TRUE(qp.destroy());
  EXPECT_TRUE(recorder.live.empty());
  options.capacity.max_recv_wr = 256;
  recorder.asked.clear();
  EXPECT_TRUE(bench.pd->create_qp(options));
  EXPECT_EQ(recorder.asked[0], (std::tuple{MemoryUse::kQp, 4352, 128}));
  EXPECT_TRUE(recorder.live.empty());
}

TEST(CustomMemory, OfCompletionAndSharedReceiveQueues) {
  Bench bench;
  Recorder recorder;
  auto cq = *bench.context->create_cq({.entries = 10, .allocator = &recorder});
  EXPECT_EQ(recorder.asked, (Asked{{MemoryUse::kCq, 4096, 4096}, {MemoryUse::kDoorbellRecord, 8, 8}}));
  const auto* entries = reinterpret_cast<const std::byte*>(bench.kernel.create_cq.buf_addr);
  EXPECT_EQ(entries[15 * 64 + 63], std::byte{0xf0});
  recorder.asked.clear();
  auto srq = *bench.pd->create_srq({.max_wr = 10, .allocator = &recorder});
  EXPECT_EQ(recorder.asked, (Asked{{MemoryUse::kSrq, 4096, 4096}, {MemoryUse::kDoorbellRecord, 8, 8}}));
  EXPECT_TRUE(cq.destroy());
  EXPECT_TRUE(srq.destroy());
  EXPECT_TRUE(recorder.live.empty());
}

TEST(CustomMemory, LeftToTheDriverOrRefused) {
  Bench bench;
  Recorder recorder;
  recorder.leave_to_driver = MemoryUse::kDoorbellRecord;
  const QpOptions options{.send_cq = bench.cq.get(),
                          .recv_cq = bench.cq.get(),
                          .capacity = {.max_send_wr = 1, .max_send_sge = 1},
                          .allocator = &recorder};
  auto qp = *bench.pd->create_qp(options);
  EXPECT_EQ(recorder.live.size(), 1u);
  EXPECT_FALSE(recorder.live.contains(reinterpret_cast<void*>(bench.kernel.create_qp.db_addr)));
  EXPECT_TRUE(qp.destroy());
  for (const MemoryUse use : {MemoryUse::kQp, MemoryUse::kDoorbellRecord}) {
    recorder.leave_to_driver.reset();
    recorder.refuse = use;
    EXPECT_EQ(bench.pd->create_qp(options).error().errno_value, ENOMEM);
    EXPECT_TRUE(recorder.live.empty());
  }
}

}  // namespace
}  // namespace umlx5
