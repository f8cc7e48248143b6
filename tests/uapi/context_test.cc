#include "uapi/context.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "tests/uapi/fake_channel.h"

namespace umlx5::uapi {
namespace {

// The kernel's view of one try: bytes of the driver's request and its flags.
using Try = std::pair<std::size_t, std::uint32_t>;

class Context : public ::testing::Test {
 protected:
  // Accepts the tries that `accept` likes.
  void serve(std::function<int(const Try&)> accept, mlx5_ib_alloc_ucontext_resp response = {}) {
    channel.on_ioctl = [=, this](ib_uverbs_ioctl_hdr& request) {
      if (is_probe(request)) return ENOSPC;
      const ib_uverbs_attr* in = find_attribute(request, 0x1000);
      std::uint32_t flags = 0;
      std::memcpy(&flags, reinterpret_cast<const std::byte*>(in->data) + 8, 4);
      tries.emplace_back(in->len, flags);
      if (const int result = accept(tries.back()); result != 0) return result;
      answer(request, 0, std::uint32_t{31});
      answer(request, 1, std::uint64_t{1});
      answer(request, 0x1001, response);
      return 0;
    };
  }

  FakeChannel channel;
  std::vector<Try> tries;
};

TEST_F(Context, SaysWhatTheDriverCan) {
  mlx5_ib_alloc_ucontext_resp response{};
  response.qp_tab_size = 1 << 18;
  response.cqe_version = 1;
  response.num_ports = 1;
  response.dump_fill_mkey = 0x1234;
  serve([](const Try&) { return 0; }, response);
  Commands commands(channel);
  const auto info = get_context(commands, {.total_bfregs = 16, .low_latency_bfregs = 4});
  ASSERT_TRUE(info);
  EXPECT_EQ(info->completion_vectors, 31u);
  EXPECT_EQ(info->core_support, 1u);
  EXPECT_TRUE(info->devx);
  EXPECT_TRUE(info->dynamic_uars());
  EXPECT_FALSE(info->async_event_fd);
  EXPECT_EQ(info->device.qp_tab_size, 1u << 18);
  EXPECT_EQ(info->device.dump_fill_mkey, 0x1234u);

  const FakeAttribute* in = channel.last_ioctl().find(0x1000);
  const std::vector<std::uint8_t> expected{16, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                                           1,  0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(in->bytes.size(), expected.size());
  EXPECT_EQ(std::memcmp(in->bytes.data(), expected.data(), expected.size()), 0);
}

TEST_F(Context, ShorterRequestsForOlderKernels) {
  serve([](const Try& t) { return t.first == 16 ? 0 : EINVAL; });
  Commands commands(channel);
  const auto info = get_context(commands, {});
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->devx);
  EXPECT_EQ(tries, (std::vector<Try>{{32, 1}, {24, 1}, {16, 1}}));
}

TEST_F(Context, DevxIsGivenUpAfterThreeTries) {
  serve([](const Try& t) { return t.second == 0 && t.first == 24 ? 0 : EPERM; });
  Commands commands(channel);
  const auto info = get_context(commands, {});
  ASSERT_TRUE(info);
  EXPECT_FALSE(info->devx);
  EXPECT_EQ(tries, (std::vector<Try>{{32, 1}, {24, 1}, {16, 1}, {32, 0}, {24, 0}}));
}

TEST_F(Context, RequiredDevxIsNotGivenUp) {
  serve([](const Try& t) { return t.second == 0 ? 0 : EPERM; });
  Commands commands(channel);
  const auto info = get_context(commands, {.devx_required = true});
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().errno_value, EPERM);
  EXPECT_EQ(tries.size(), 3u);
}

TEST_F(Context, TheFirstErrorIsTold) {
  serve([](const Try& t) { return t.first == 32 && t.second == 1 ? ENOMEM : EINVAL; });
  Commands commands(channel);
  const auto info = get_context(commands, {});
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().errno_value, ENOMEM);
  EXPECT_EQ(tries.size(), 6u);
}

TEST_F(Context, ANewerCqeVersionCannotBeUsed) {
  mlx5_ib_alloc_ucontext_resp response{};
  response.cqe_version = 2;
  serve([](const Try&) { return 0; }, response);
  Commands commands(channel);
  const auto info = get_context(commands, {});
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().errno_value, EOPNOTSUPP);
}

TEST_F(Context, OldKernelsOpenTheAsyncEventsWithIt) {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return ENOTTY; };
  channel.on_write = [&](std::span<const std::byte> message) {
    if (message.size() != 8 + 8 + 24) return EINVAL;
    mlx5_ib_alloc_ucontext_resp response{};
    response.tot_bfregs = 16;
    answer_write(message, std::array<std::uint32_t, 2>{static_cast<std::uint32_t>(fd), 3}, response);
    return 0;
  };
  Commands commands(channel);
  {
    const auto info = get_context(commands, {});
    ASSERT_TRUE(info);
    EXPECT_EQ(info->async_event_fd.get(), fd);
    EXPECT_EQ(info->completion_vectors, 3u);
    EXPECT_FALSE(info->dynamic_uars());
    EXPECT_EQ(channel.writes.size(), 2u);
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1) << "it is closed with the context";
}

}  // namespace
}  // namespace umlx5::uapi
