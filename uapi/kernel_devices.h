// The kernel's devices: found through RDMA netlink or sysfs, opened as character devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "uapi/channel.h"
#include "uapi/error.h"

namespace umlx5::uapi {

// Thread-safe: it holds nothing but its options.
class KernelDevices : public DeviceSource {
 public:
  struct Options {
    std::string sysfs_root = "/sys";
    std::string dev_root = "/dev";
    bool use_netlink = true;  // false: sysfs alone
  };

  KernelDevices() : KernelDevices(Options{}) {}
  explicit KernelDevices(Options options);

  // In the order of the uverbs nodes' numbers. Devices of other drivers are left out, as are nodes that vanish
  // meanwhile.
  Expected<std::vector<DeviceInfo>> list() override;

  // ENOENT without a device node, EACCES or EPERM without permission, ENODEV or ENXIO without a device behind the node,
  // EBUSY; EPROTONOSUPPORT for a driver interface that is not version 1. EINVAL for a software device.
  Expected<std::unique_ptr<Channel>> open(const DeviceInfo& device) override;

 private:
  Options options_;
};

// The character device's Channel. `fd` is owned; `sysfs_directory` is the RDMA device's, without a final slash.
std::unique_ptr<Channel> make_character_device(int fd, std::string sysfs_directory);

}  // namespace umlx5::uapi
