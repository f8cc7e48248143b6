// Soft devices as a source of devices for the driver.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tools/softhca/device.h"
#include "uapi/channel.h"

namespace softhca {

struct OpenDevice;

// How many soft devices a process is to have: UMLX5_SOFT_DEVICES, a number from 0 to 64, or 1 if it is unset or empty.
// Errors: EINVAL, with the value in the text.
umlx5::Expected<std::size_t> device_count_from_environment();

// `count` soft devices of this process, "mlx5_0" and so on. A device comes to be when it is first opened, and lives as
// long as the source or a channel of it. Thread-safe.
//
// A child made by fork() gets devices of its own when it opens them, at the next free address. A channel that it has
// from its parent is still the parent's, which answers; what takes the program's memory, a descriptor, or a doorbell
// page to be mapped is refused with EIO, and so is everything once the parent has ended.
class SoftDeviceSource final : public umlx5::uapi::DeviceSource {
 public:
  // Options come from the environment (device.h); an address there goes to the first device only.
  explicit SoftDeviceSource(std::size_t count = 1);
  // The options of every device.
  explicit SoftDeviceSource(std::vector<DeviceOptions> options);

  umlx5::Expected<std::vector<umlx5::uapi::DeviceInfo>> list() override;
  // ENODEV for a device that list() did not give; otherwise what opening it gives.
  umlx5::Expected<std::unique_ptr<umlx5::uapi::Channel>> open(const umlx5::uapi::DeviceInfo& device) override;

 private:
  struct Slot {
    DeviceOptions options;
    std::shared_ptr<OpenDevice> device;
  };
  umlx5::Expected<std::shared_ptr<OpenDevice>> device_of(Slot& slot);

  bool from_environment_ = false;
  std::vector<Slot> slots_;
};

}  // namespace softhca
