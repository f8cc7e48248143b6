#include "tools/softhca/source.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

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

TEST(SoftDevice, ChildOfForkEndsCleanly) {
  SoftDeviceSource source;
  auto channel = source.open(source.list().value().front());
  ASSERT_TRUE(channel.has_value()) << channel.error().message();
  const pid_t child = ::fork();
  if (child == 0) {
    ib_uverbs_ioctl_hdr request{};
    request.length = sizeof request;
    const int error = (*channel)->ioctl(request);
    channel->reset();
    ::_exit(error == EIO ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace softhca
