// Devices that come from a shared library which a program need not be linked with.
#pragma once

#include <string>

#include "uapi/channel.h"
#include "uapi/error.h"

namespace umlx5::uapi {

// What the library gives; for the life of the process.
struct DevicePlugin {
  DeviceSource* source = nullptr;
  std::string sysfs_root;  // where the devices' entries lie, as /sys has those of the kernel's: class/infiniband/...
};

// The function that the library exports under kDevicePluginEntry. Called once; false, with `error`, if it has none to
// give. Both sides are built together.
using DevicePluginEntry = bool (*)(DevicePlugin& plugin, Error& error);
inline constexpr char kDevicePluginEntry[] = "umlx5_device_plugin";

}  // namespace umlx5::uapi
