// Where the devices of a process come from. Part of libibverbs alone.
#pragma once

#include <string>

#include "uapi/channel.h"
#include "uapi/error.h"

namespace umlx5::verbs {

struct DeviceOrigin {
  uapi::DeviceSource* source = nullptr;
  std::string sysfs_root;
};

// The kernel; or, where UMLX5_SOFT_DEVICES is set and nothing stands in for the kernel, the soft devices of
// libumlx5_softhca.so beside this library. Found at the first call, as is the error then: EINVAL for a value of a
// UMLX5_SOFT_* variable, ENOENT without that library, what opening a soft device gives.
const Expected<DeviceOrigin>& device_origin();

}  // namespace umlx5::verbs
