// Failures before a device is open: each is one line, and an exit code that is not 0.
#include "tools/cli/run_test.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

namespace umlx5::tools {
namespace {

class Source : public uapi::DeviceSource {
 public:
  explicit Source(Error error) : error_(std::move(error)) {}
  Expected<std::vector<uapi::DeviceInfo>> list() override {
    uapi::DeviceInfo info;
    info.name = "mlx5_0";
    info.path = "/dev/infiniband/uverbs0";
    return std::vector{info};
  }
  Expected<std::unique_ptr<uapi::Channel>> open(const uapi::DeviceInfo&) override { return std::unexpected(error_); }

 private:
  Error error_;
};

std::string line_of_run(Error error, const std::string& device, Role role) {
  Source source(std::move(error));
  const std::array<uapi::DeviceSource*, 1> sources = {&source};
  TestOptions options;
  options.role = role;
  options.host = "127.0.0.1";
  options.device = device;
  options.size_bytes = 8;
  options.iterations = 1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_test(options, {}, sources), 1);
  return testing::internal::GetCapturedStderr();
}

TEST(RunTest, WhatOpeningSaysIsPassedOn) {
  Error no_permission;
  no_permission.errno_value = EACCES;
  no_permission.what = "cannot open /dev/infiniband/uverbs0";
  for (const Role role : {Role::kServer, Role::kClient}) {
    EXPECT_EQ(line_of_run(no_permission, "", role),
              "umlx5 lat: cannot open /dev/infiniband/uverbs0: Permission denied (EACCES)\n");
  }
}

TEST(RunTest, AnUnknownDevice) {
  EXPECT_EQ(line_of_run({}, "mlx5_7", Role::kServer),
            "umlx5 lat: there is no device 'mlx5_7'; there are: mlx5_0: No such device (ENODEV)\n");
}

}  // namespace
}  // namespace umlx5::tools
