// Life of objects: what the kernel is told, what refuses to go and why, and that nothing is left behind.
#include "driver/context.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rdma/mlx5-abi.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/driver/fixture.h"

namespace umlx5 {
namespace {

using namespace std::chrono_literals;
using testing::ConnectedQp;
using testing::FakeChannel;
using testing::FakeKernel;
using testing::open_fake;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST(Context, TellsWhatTheDeviceIs) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  const DeviceAttributes& attributes = context->attributes();
  EXPECT_EQ(attributes.firmware_version, "22.41.1000");
  EXPECT_EQ(attributes.max_cqe, (1u << 22) - 1);
  EXPECT_EQ(attributes.max_send_wqe_bytes, 1024u);
  EXPECT_EQ(attributes.max_send_wqebbs, 32768u);
  EXPECT_EQ(attributes.blueflame_register_bytes, 512u);
  EXPECT_EQ(attributes.port_count, 1);
  EXPECT_TRUE(attributes.atomics);
  EXPECT_EQ(context->device().name, "fake0");
}

TEST(Context, KernelWithoutDynamicUarsIsRefusedInWords) {
  FakeKernel kernel;
  kernel.ucontext.tot_bfregs = 16;
  const auto context = Context::open(testing::fake_device(), std::make_unique<FakeChannel>(kernel));
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().errno_value, EOPNOTSUPP);
  EXPECT_NE(context.error().what.find("5.6"), std::string::npos);
  EXPECT_TRUE(kernel.channel_closed);
}

TEST(Context, CreateQpTellsTheKernelTheGeometry) {
  ConnectedQp c(
      {.capacity = {.max_send_wr = 100, .max_recv_wr = 100, .max_send_sge = 1, .max_recv_sge = 3}, .signal_all = true});
  const mlx5_ib_create_qp& request = c.kernel.create_qp;
  EXPECT_EQ(request.sq_wqe_count, 512u);
  EXPECT_EQ(request.rq_wqe_count, 128u);
  EXPECT_EQ(request.rq_wqe_shift, 6u);
  EXPECT_EQ(request.flags, MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_SCATTER_CQE);
  EXPECT_EQ(request.uidx, 0u);
  EXPECT_EQ(request.buf_addr % 4096, 0u);
  EXPECT_EQ(request.db_addr % 8, 0u);
  EXPECT_EQ(c.kernel.qp_flags, IB_UVERBS_QP_CREATE_SQ_SIG_ALL);
  EXPECT_EQ(c.kernel.qp_user_handle, reinterpret_cast<std::uint64_t>(c.qp.get()));
  EXPECT_EQ(c.qp->capacity().max_send_wr, 128u);
  EXPECT_EQ(c.qp->capacity().max_recv_wr, 128u);
  EXPECT_EQ(c.qp->capacity().max_recv_sge, 4u);
  EXPECT_EQ(c.qp->capacity().max_inline_bytes, 60u);
  EXPECT_EQ(c.qp->send_queue().config().ring - reinterpret_cast<std::byte*>(request.buf_addr), 128 * 64);
}

TEST(Context, CreateCqTellsTheKernelTheRing) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  const auto pd = context->alloc_pd();
  const auto cq = context->create_cq({.entries = 100, .cqe_bytes = 128});
  ASSERT_TRUE(cq) << cq.error().message();
  EXPECT_EQ((*cq)->entries(), 127u);
  EXPECT_EQ((*cq)->cqn(), 0x45u);
  EXPECT_EQ(kernel.create_cq.cqe_size, 128u);
  EXPECT_EQ(kernel.create_cq.flags, MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX);
  EXPECT_EQ(kernel.create_cq.uar_page_index, FakeKernel::kFirstPageId);
  EXPECT_EQ(kernel.uar_types[0], 1u);  // not cached
  const auto* buffer = reinterpret_cast<const std::byte*>(kernel.create_cq.buf_addr);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(buffer[i * 128 + 127], std::byte{0xf0}) << i;  // no lap of the device has written it
  }
}

TEST(Context, BadCqOptionsAreRefused) {
  FakeKernel kernel, other_kernel;
  kernel.max_cqe = 1000;
  const auto context = open_fake(kernel);
  const auto other = open_fake(other_kernel);
  const auto channel = other->create_completion_channel();
  for (const CqOptions& options :
       {CqOptions{.entries = 0}, CqOptions{.entries = 1001}, CqOptions{.entries = 10, .cqe_bytes = 32},
        CqOptions{.entries = 10, .cqe_bytes = 64, .channel = channel->get()}}) {
    const auto cq = context->create_cq(options);
    ASSERT_FALSE(cq);
    EXPECT_EQ(cq.error().errno_value, EINVAL);
  }
  EXPECT_EQ(context->create_cq({.entries = 1001}).error().what,
            "CQ create: 1001 entries; at most 1000 (device's max_cqe)");
}

TEST(Context, BadQpOptionsAreRefused) {
  ConnectedQp c;
  FakeKernel other_kernel;
  const auto other = open_fake(other_kernel);
  const auto other_cq = other->create_cq({.entries = 1});
  EXPECT_EQ(c.pd->create_qp({.recv_cq = c.cq.get()}).error().errno_value, EINVAL);
  EXPECT_EQ(c.pd->create_qp({.send_cq = c.cq.get()}).error().errno_value, EINVAL);
  EXPECT_EQ(c.pd->create_qp({.send_cq = c.cq.get(), .recv_cq = other_cq->get()}).error().errno_value, EINVAL);
  EXPECT_EQ(c.pd->create_qp({.type = QpType{7}, .send_cq = c.cq.get(), .recv_cq = c.cq.get()}).error().errno_value,
            EINVAL);
  EXPECT_EQ(c.kernel.live.size(), 3u + 2u);  // PD, CQ, QP and two UARs
}

TEST(Context, MemoryRegionRulesAndKeys) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  const auto pd = context->alloc_pd();
  std::array<std::byte, 64> memory{};
  EXPECT_EQ((*pd)->register_memory(memory, Access::kRemoteWrite).error().errno_value, EINVAL);
  EXPECT_EQ((*pd)->register_memory(memory, Access::kRemoteAtomic).error().errno_value, EINVAL);
  const auto region = (*pd)->register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite);
  ASSERT_TRUE(region);
  EXPECT_NE((*region)->lkey(), 0u);
  const Sge sge = (*region)->sge(8, 16);
  EXPECT_EQ(sge.address, reinterpret_cast<std::uint64_t>(memory.data()) + 8);
  EXPECT_EQ(sge.length_bytes, 16u);
  EXPECT_EQ(sge.lkey, (*region)->lkey());
}

TEST(Context, WrongOrderIsRefusedWithTheUsersNamed) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto channel = *context->create_completion_channel();
  auto cq = *context->create_cq({.entries = 3, .channel = channel.get()});
  auto qp = *pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()});
  std::array<std::byte, 8> memory{};
  auto region = *pd->register_memory(memory, Access::kLocalWrite);

  auto refused = pd.destroy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EBUSY);
  EXPECT_EQ(refused.error().what,
            "PD 0x77 is still used by QP 0x1234, MR with lkey 0x" + std::string(fmt::format("{:x}", region->lkey())));
  refused = cq.destroy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EBUSY);
  EXPECT_EQ(refused.error().what, "CQ 0x45 is still used by QP 0x1234");
  refused = channel.destroy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value, EBUSY);

  EXPECT_TRUE(qp.destroy());
  EXPECT_TRUE(cq.destroy());
  EXPECT_TRUE(channel.destroy());
  EXPECT_TRUE(region.destroy());
  EXPECT_TRUE(pd.destroy());
  EXPECT_TRUE(pd.destroy());  // an empty owner has nothing to destroy
}

TEST(Context, ManyUsersAreNotAllNamed) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 3});
  std::vector<Owned<Qp>> qps;
  for (int i = 0; i < 6; ++i) {
    qps.push_back(*pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()}));
  }
  EXPECT_EQ(cq.destroy().error().what,
            "CQ 0x45 is still used by QP 0x1234, QP 0x1235, QP 0x1236, QP 0x1237 and 2 more");
}

TEST(Context, ClosesWhatIsLeftInTheRightOrder) {
  FakeKernel kernel;
  const std::size_t descriptors = open_descriptors();
  {
    const auto context = open_fake(kernel);
    auto pd = *context->alloc_pd();
    auto channel = *context->create_completion_channel();
    auto cq = *context->create_cq({.entries = 3, .channel = channel.get()});
    auto qp = *pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()});
    std::array<std::byte, 8> memory{};
    auto region = *pd->register_memory(memory, Access::kLocalWrite);
    pd = {};  // each of these is refused and left to the context
    cq = {};
    channel = {};
    // `region` and `qp` go by themselves.
  }
  EXPECT_EQ(kernel.destroyed, (std::vector<std::string>{"MR", "QP", "CQ", "PD", "UAR", "UAR"}));
  EXPECT_TRUE(kernel.live.empty());
  EXPECT_TRUE(kernel.mappings.empty());
  EXPECT_TRUE(kernel.channel_closed);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(Context, ClosesEvenWhenTheKernelRefuses) {
  FakeKernel kernel;
  {
    const auto context = open_fake(kernel);
    auto pd = *context->alloc_pd();
    auto cq = *context->create_cq({.entries = 3});
    auto qp = *pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()});
    for (const auto& [handle, kind] : kernel.live) {
      kernel.undestroyable.insert(handle);
    }
    EXPECT_EQ(qp.destroy().error().errno_value, EBUSY);
    EXPECT_EQ(cq.destroy().error().errno_value, EBUSY);
    EXPECT_EQ(qp->qpn(), 0x1234u);  // still there, and may be tried again
  }
  EXPECT_TRUE(kernel.channel_closed);
  EXPECT_TRUE(kernel.mappings.empty());
}

TEST(Context, EachQpHasARegisterOfItsOwnWhileTheyLast) {
  FakeKernel kernel;
  const auto context = open_fake(kernel, {.total_blueflame_registers = 4});
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 3});
  std::vector<Owned<Qp>> qps;
  std::vector<std::uint32_t> pages;
  for (int i = 0; i < 6; ++i) {
    qps.push_back(*pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()}));
    pages.push_back(kernel.create_qp.bfreg_index - FakeKernel::kFirstPageId);
  }
  EXPECT_EQ(pages, (std::vector<std::uint32_t>{1, 1, 2, 2, 0, 0}));  // two a page, then the shared page
  qps.erase(qps.begin() + 1);
  qps.push_back(*pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()}));
  EXPECT_EQ(kernel.create_qp.bfreg_index - FakeKernel::kFirstPageId, 1u);  // the register came back
}

TEST(Context, NoFurtherUarPageMeansSharing) {
  FakeKernel kernel;
  kernel.uar_pages = 2;
  const auto context = open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 3});
  std::vector<Owned<Qp>> qps;
  for (int i = 0; i < 3; ++i) {
    auto qp = pd->create_qp({.send_cq = cq.get(), .recv_cq = cq.get()});
    ASSERT_TRUE(qp) << qp.error().message();
    qps.push_back(std::move(*qp));
  }
  EXPECT_EQ(kernel.create_qp.bfreg_index, FakeKernel::kFirstPageId);
}

TEST(Context, NoUarPageAtAllFailsWithTheKernelsErrno) {
  FakeKernel kernel;
  kernel.uar_pages = 0;
  const std::size_t descriptors = open_descriptors();
  const auto context = Context::open(testing::fake_device(), std::make_unique<FakeChannel>(kernel));
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().errno_value, ENOMEM);
  EXPECT_EQ(open_descriptors(), descriptors);
}

// Queues of no requests, in all combinations.
TEST(Context, QueuesOfSizeZero) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  auto pd = *context->alloc_pd();
  auto cq = *context->create_cq({.entries = 3});
  for (const std::uint32_t send : {0u, 1u}) {
    for (const std::uint32_t recv : {0u, 1u}) {
      auto qp = pd->create_qp(
          {.send_cq = cq.get(), .recv_cq = cq.get(), .capacity = {.max_send_wr = send, .max_recv_wr = recv}});
      ASSERT_TRUE(qp) << qp.error().message();
      EXPECT_EQ(kernel.create_qp.sq_wqe_count, send * 4);
      EXPECT_EQ(kernel.create_qp.rq_wqe_count, recv * 4);
      ASSERT_TRUE((*qp)->connect({}, 0, {}));
      const SendWr send_request;
      const RecvWr recv_request;
      EXPECT_EQ((*qp)->post_send({&send_request, 1}).posted, send);
      EXPECT_EQ((*qp)->post_recv({&recv_request, 1}).posted, recv);
      EXPECT_TRUE(qp->destroy());
    }
  }
}

// Every request of a whole life fails once: its errno arrives, and nothing is left.
TEST(Context, FailureOfAnyRequestLeavesNothingBehind) {
  const std::size_t descriptors = open_descriptors();
  int failed = 0;
  int quiet = 0;
  for (int k = 1; k < 200 && quiet < 3; ++k) {
    FakeKernel kernel;
    kernel.fail_at = k;
    kernel.fail_errno = EDQUOT;  // nothing in the driver makes this one
    std::optional<Error> error;
    const auto life = [&]() -> Expected<void> {
      auto context = Context::open(testing::fake_device(), std::make_unique<FakeChannel>(kernel));
      if (!context) return std::unexpected(context.error());
      auto pd = (*context)->alloc_pd();
      if (!pd) return std::unexpected(pd.error());
      std::array<std::byte, 8> memory{};
      auto region = (*pd)->register_memory(memory, Access::kLocalWrite);
      if (!region) return std::unexpected(region.error());
      auto channel = (*context)->create_completion_channel();
      if (!channel) return std::unexpected(channel.error());
      auto cq = (*context)->create_cq({.entries = 3, .channel = channel->get()});
      if (!cq) return std::unexpected(cq.error());
      auto qp = (*pd)->create_qp({.send_cq = cq->get(), .recv_cq = cq->get(), .capacity = {.max_send_wr = 4}});
      if (!qp) return std::unexpected(qp.error());
      if (auto result = (*qp)->connect({}, 0, {}); !result) return result;
      if (auto state = (*qp)->query_state(); !state) return std::unexpected(state.error());
      if (auto result = (*qp)->to_reset(); !result) return result;
      return {};
    };
    const auto result = life();
    if (!result) {
      ++failed;
      EXPECT_EQ(result.error().errno_value, EDQUOT) << k << ": " << result.error().message();
      EXPECT_FALSE(result.error().what.empty());
    }
    quiet = kernel.requests < k ? quiet + 1 : 0;
    EXPECT_TRUE(kernel.live.empty()) << k;
    EXPECT_TRUE(kernel.mappings.empty()) << k;
    EXPECT_TRUE(kernel.channel_closed) << k;
    EXPECT_EQ(open_descriptors(), descriptors) << k;
  }
  EXPECT_GE(failed, 12);
  EXPECT_EQ(quiet, 3);
}

TEST(Context, AsyncEventsInWords) {
  ConnectedQp c;
  EXPECT_FALSE(*c.context->next_async_event(0ms));
  const auto send = [&](std::uint64_t element, std::uint32_t type) {
    const ib_uverbs_async_event_desc record{.element = element, .event_type = type, .reserved = 0};
    ASSERT_EQ(::write(c.kernel.async_write_fd, &record, sizeof record), static_cast<ssize_t>(sizeof record));
  };
  send(c.kernel.qp_user_handle, 1);  // IBV_EVENT_QP_FATAL
  send(c.kernel.cq_user_handle, 0);  // IBV_EVENT_CQ_ERR
  send(1, 9);                        // IBV_EVENT_PORT_ACTIVE
  send(0xdead0000, 1);               // of a QP that is gone
  send(0, 77);
  auto event = *c.context->next_async_event(1s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, 1u);
  EXPECT_EQ(event->qp, c.qp.get());
  EXPECT_EQ(event->text, "QP fatal error on QP 0x1234");
  event = *c.context->next_async_event(1s);
  EXPECT_EQ(event->cq, c.cq.get());
  event = *c.context->next_async_event(1s);
  EXPECT_EQ(event->port, 1);
  EXPECT_EQ(event->text, "port 1 active");
  event = *c.context->next_async_event(1s);
  EXPECT_EQ(event->qp, nullptr);
  EXPECT_EQ(event->text, "QP fatal error");
  event = *c.context->next_async_event(1s);
  EXPECT_EQ(event->text, "unknown event 77");
  EXPECT_FALSE(*c.context->next_async_event(1ms));
}

TEST(Context, CompletionChannelTellsWhichCq) {
  FakeKernel kernel;
  const auto context = open_fake(kernel);
  auto channel = *context->create_completion_channel();
  auto cq = *context->create_cq({.entries = 3, .channel = channel.get()});
  EXPECT_FALSE(*channel->wait(0ms));
  for (const std::uint64_t user : {std::uint64_t{0x1234}, kernel.cq_user_handle}) {  // the first is of a CQ long gone
    const ib_uverbs_comp_event_desc record{.cq_handle = user};
    ASSERT_EQ(::write(kernel.completion_fds[0], &record, sizeof record), static_cast<ssize_t>(sizeof record));
  }
  const auto which = channel->wait(1s);
  ASSERT_TRUE(which);
  ASSERT_TRUE(*which);
  EXPECT_EQ(**which, cq.get());
  EXPECT_FALSE(*channel->wait(1ms));
}

TEST(Context, OpenDeviceNamesTheDevicesThereAre) {
  class Source final : public uapi::DeviceSource {
   public:
    explicit Source(FakeKernel& kernel) : kernel_(kernel) {}
    Expected<std::vector<uapi::DeviceInfo>> list() override { return std::vector{testing::fake_device()}; }
    Expected<std::unique_ptr<uapi::Channel>> open(const uapi::DeviceInfo&) override {
      return std::make_unique<FakeChannel>(kernel_);
    }

   private:
    FakeKernel& kernel_;
  };
  FakeKernel kernel;
  Source source(kernel);
  uapi::DeviceSource* const sources[] = {&source};
  const auto missing = open_device(sources, "mlx5_7");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().errno_value, ENODEV);
  EXPECT_EQ(missing.error().what, "there is no device mlx5_7; there are: fake0");
  EXPECT_TRUE(open_device(sources, "fake0"));
  EXPECT_TRUE(open_device(sources, ""));
  EXPECT_EQ(open_device({}, "").error().errno_value, ENODEV);
}

}  // namespace
}  // namespace umlx5
