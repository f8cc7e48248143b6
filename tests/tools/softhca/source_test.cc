#include "tools/softhca/source.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "uapi/commands.h"
#include "uapi/context.h"
#include "uapi/uar.h"

namespace softhca {
namespace {

std::uint64_t process_cpu_ms() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1000 + static_cast<std::uint64_t>(used.tv_nsec) / 1'000'000;
}

TEST(SoftDeviceSource, ListsSoftwareDevices) {
  SoftDeviceSource source(2);
  const auto devices = source.list().value();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].name, "mlx5_1");
  EXPECT_TRUE(devices[0].software);
  EXPECT_EQ(devices[0].abi_version, 1);
}

TEST(SoftDeviceSource, EachDeviceHasItsOwnAddress) {
  SoftDeviceSource source(2);
  const auto devices = source.list().value();
  const auto first = source.open(devices[0]), second = source.open(devices[1]);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  ASSERT_TRUE(second.has_value()) << second.error().message();
  const auto gid = [](const auto& channel) { return channel->attribute("ports/1/gids/0").value(); };
  EXPECT_EQ(gid(*first).substr(0, 35), "0000:0000:0000:0000:0000:ffff:7f00:");
  EXPECT_NE(gid(*first), gid(*second));
}

TEST(SoftDeviceSource, ErrorsNameTheirVariable) {
  ::setenv("UMLX5_SOFT_ADDR", "127.0.0.300", 1);
  SoftDeviceSource source;
  const auto device = source.list().value().front();
  auto opened = source.open(device);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().errno_value, EINVAL);
  EXPECT_NE(opened.error().what.find("UMLX5_SOFT_ADDR"), std::string::npos);
  ::unsetenv("UMLX5_SOFT_ADDR");
  ::setenv("UMLX5_SOFT_FAULTS", "no such fault", 1);
  opened = source.open(device);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().errno_value, EINVAL);
  EXPECT_NE(opened.error().what.find("UMLX5_SOFT_FAULTS"), std::string::npos);
  ::unsetenv("UMLX5_SOFT_FAULTS");
  EXPECT_TRUE(source.open(device).has_value());
  EXPECT_EQ(source.open({.name = "mlx5_9", .path = "soft:mlx5_9"}).error().errno_value, ENODEV);
}

TEST(SoftDeviceCount, IsAWholeNumberUpTo64) {
  ::unsetenv("UMLX5_SOFT_DEVICES");
  EXPECT_EQ(device_count_from_environment(), 1u);
  const auto count = [](const char* value) {
    ::setenv("UMLX5_SOFT_DEVICES", value, 1);
    return device_count_from_environment();
  };
  EXPECT_EQ(count(""), 1u);
  EXPECT_EQ(count("0"), 0u);
  EXPECT_EQ(count("64"), 64u);
  for (const char* bad : {"65", "-1", "two", "2x", " 2", "99999999999999999999"}) {
    const auto refused = count(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().errno_value, EINVAL);
    EXPECT_NE(refused.error().what.find(bad), std::string::npos);
  }
  ::unsetenv("UMLX5_SOFT_DEVICES");
}

TEST(SoftDevice, IdleDeviceSleeps) {
  SoftDeviceSource source;
  const auto channel = source.open(source.list().value().front());
  ASSERT_TRUE(channel.has_value()) << channel.error().message();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::uint64_t before = process_cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LE(process_cpu_ms() - before, 50u);  // a tenth, also where it can only nap
}

// How a child of fork() ends that runs `body`.
template <typename Body>
int child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(body());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A request that every file refuses: the driver is not mlx5's.
int bad_request(umlx5::uapi::Channel& channel) {
  ib_uverbs_ioctl_hdr request{};
  request.length = sizeof request;
  return channel.ioctl(request);
}

TEST(SoftDevice, ChildOfForkAsksItsParent) {
  SoftDeviceSource source;
  auto channel = source.open(source.list().value().front());
  ASSERT_TRUE(channel.has_value()) << channel.error().message();
  const auto gid = (*channel)->attribute("ports/1/gids/0").value();
  EXPECT_EQ(child([&] {
              const int error = bad_request(**channel);
              const bool same = (*channel)->attribute("ports/1/gids/0") == gid;
              const bool refused = (*channel)->mmap(4096, PROT_READ, 0).error() == EINVAL;  // no context yet
              channel->reset();
              return error != EINVAL ? 1 : !same ? 2 : !refused ? 3 : 0;
            }),
            0);
  EXPECT_EQ(bad_request(**channel), EINVAL);
  std::unique_ptr<umlx5::uapi::Channel>& file = *channel;
  EXPECT_EQ(child([&] { return child([&] { return bad_request(*file); }); }), EINVAL) << "a child's child";
}

TEST(SoftDevice, ChildOfForkHasDevicesOfItsOwn) {
  SoftDeviceSource source;
  const auto device = source.list().value().front();
  auto channel = source.open(device);
  ASSERT_TRUE(channel.has_value()) << channel.error().message();
  EXPECT_EQ(child([&] {
              const auto own = source.open(device);
              return !own                                                                             ? 1
                     : (*own)->attribute("ports/1/gids/0") == (*channel)->attribute("ports/1/gids/0") ? 2
                     : bad_request(**own) != EINVAL                                                   ? 3
                                                                                                      : 0;
            }),
            0);
}

TEST(SoftDevice, ChildWithoutItsParentHasNothing) {
  int answer[2];
  ASSERT_EQ(::pipe(answer), 0);
  EXPECT_EQ(child([&] {
              SoftDeviceSource source;
              auto channel = source.open(source.list().value().front());
              if (!channel) {
                return 1;
              }
              const pid_t parent = ::getpid();
              if (::fork() != 0) {
                return 0;  // with everything still open
              }
              while (::getppid() == parent) {
                ::usleep(1000);
              }
              const int error = bad_request(**channel);
              return ::write(answer[1], &error, sizeof error) == sizeof error ? 0 : 1;
            }),
            0);
  int error = 0;
  ASSERT_EQ(::read(answer[0], &error, sizeof error), static_cast<ssize_t>(sizeof error));
  EXPECT_EQ(error, EIO);
  ::close(answer[0]);
  ::close(answer[1]);
}

// A program may end the mapping of a UAR page as any other: the device sees the doorbells of the pages that are left,
// and sleeps.
TEST(SoftDevice, AUarThatTheProgramUnmapsIsGone) {
  SoftDeviceSource source;
  const auto channel = source.open(source.list().value().front());
  ASSERT_TRUE(channel.has_value()) << channel.error().message();
  umlx5::uapi::Commands commands(**channel);
  ASSERT_TRUE(umlx5::uapi::get_context(commands, {}));
  std::array<std::byte*, 2> pages{};
  for (std::byte*& page : pages) {
    const auto uar = umlx5::uapi::alloc_uar(commands, umlx5::uapi::UarType::kNonCached);
    ASSERT_TRUE(uar) << uar.error().message();
    page = (*channel)->mmap(4096, PROT_READ | PROT_WRITE, uar->mmap_offset_bytes).value();
  }
  ASSERT_EQ(::munmap(pages[0], 4096), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // asleep, with the pages watched
  auto& doorbell = *reinterpret_cast<std::uint64_t*>(pages[1] + 0x800);
  std::atomic_ref(doorbell).store(1);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::atomic_ref(doorbell).load() != 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(std::atomic_ref(doorbell).load(), 0u) << "the device takes a doorbell by clearing it";
  EXPECT_EQ(::munmap(pages[1], 4096), 0);
}

}  // namespace
}  // namespace softhca
