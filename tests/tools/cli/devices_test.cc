#include "tools/cli/devices.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

namespace umlx5::tools {
namespace {

class Source : public uapi::DeviceSource {
 public:
  Source(std::vector<std::string> names, bool software, int error = 0) : error_(error) {
    for (std::string& name : names) {
      uapi::DeviceInfo info;
      info.name = std::move(name);
      info.software = software;
      devices_.push_back(std::move(info));
    }
  }
  Expected<std::vector<uapi::DeviceInfo>> list() override {
    if (error_ != 0) {
      return fail(error_, "cannot list");
    }
    return devices_;
  }
  Expected<std::unique_ptr<uapi::Channel>> open(const uapi::DeviceInfo&) override { return fail(ENODEV, "no"); }

 private:
  std::vector<uapi::DeviceInfo> devices_;
  int error_;
};

std::string chosen(Source& kernel, Source& soft, std::string_view name, Prefer prefer) {
  const std::array<uapi::DeviceSource*, 2> sources = {&kernel, &soft};
  const auto devices = list_devices(sources);
  if (!devices) {
    return devices.error().what;
  }
  const auto device = choose_device(*devices, name, prefer);
  if (!device) {
    EXPECT_EQ(device.error().errno_value, ENODEV);
    return device.error().what;
  }
  EXPECT_EQ(device->source, device->info.software ? &soft : &kernel);
  return device->info.name;
}

TEST(ChooseDevice, ThePreferredKindFirst) {
  Source kernel({"mlx5_0", "mlx5_1"}, false), soft({"soft0", "soft1"}, true), none({}, false);
  EXPECT_EQ(chosen(kernel, soft, "", Prefer::kHardware), "mlx5_0");
  EXPECT_EQ(chosen(kernel, soft, "", Prefer::kSoftware), "soft0");
  EXPECT_EQ(chosen(none, soft, "", Prefer::kHardware), "soft0");
  EXPECT_EQ(chosen(kernel, none, "", Prefer::kSoftware), "mlx5_0");
}

TEST(ChooseDevice, ByName) {
  Source kernel({"mlx5_0", "mlx5_1"}, false), soft({"soft0", "soft1"}, true);
  EXPECT_EQ(chosen(kernel, soft, "mlx5_1", Prefer::kSoftware), "mlx5_1");
  EXPECT_EQ(chosen(kernel, soft, "soft1", Prefer::kHardware), "soft1");
  EXPECT_EQ(chosen(kernel, soft, "soft", Prefer::kHardware), "soft0");
}

TEST(ChooseDevice, AnUnknownNameListsThoseThatExist) {
  Source kernel({"mlx5_0"}, false), soft({"soft0"}, true), none({}, true);
  EXPECT_EQ(chosen(kernel, soft, "mlx4_0", Prefer::kHardware),
            "there is no device 'mlx4_0'; there are: mlx5_0, soft0 (software)");
  EXPECT_EQ(chosen(kernel, none, "soft", Prefer::kHardware), "there is no device 'soft'; there are: mlx5_0");
}

TEST(ChooseDevice, NoDeviceAtAll) {
  Source kernel({}, false), soft({}, true);
  EXPECT_EQ(chosen(kernel, soft, "", Prefer::kHardware),
            "there is no mlx5 device, and no software device (UMLX5_SOFT_DEVICES is 0)");
}

TEST(ListDevices, ASourcesErrorIsPassedOn) {
  Source kernel({}, false, EACCES), soft({"soft0"}, true);
  EXPECT_EQ(chosen(kernel, soft, "", Prefer::kHardware), "cannot list");
}

}  // namespace
}  // namespace umlx5::tools
