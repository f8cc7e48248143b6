#include "driver/verbs/device_origin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "uapi/device_plugin.h"
#include "uapi/kernel_devices.h"

namespace umlx5::verbs {
namespace {

constexpr char kSoftDevices[] = "UMLX5_SOFT_DEVICES";

// What the preloaded shim, which plays the kernel, exports: 0, or why it has no devices.
using PreloadError = int (*)();
PreloadError preload() { return reinterpret_cast<PreloadError>(::dlsym(RTLD_DEFAULT, "umlx5_preload_error")); }

// A file beside the library that this code is in.
std::string beside(std::string_view file) {
  Dl_info own{};
  ::dladdr(reinterpret_cast<const void*>(&device_origin), &own);
  const std::string_view path = own.dli_fname == nullptr ? "" : own.dli_fname;
  return std::string(path.substr(0, path.rfind('/') + 1)) += file;
}

Expected<DeviceOrigin> soft_devices() {
  const std::string path = beside("libumlx5_softhca.so");
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const auto entry = library == nullptr
                         ? nullptr
                         : reinterpret_cast<uapi::DevicePluginEntry>(::dlsym(library, uapi::kDevicePluginEntry));
  if (entry == nullptr) {
    return fail(ENOENT, fmt::format("{} is set, and the soft devices cannot be loaded: {}", kSoftDevices, ::dlerror()));
  }
  uapi::DevicePlugin plugin;
  Error error;
  if (!entry(plugin, error)) {
    return std::unexpected(std::move(error));
  }
  return DeviceOrigin{.source = plugin.source, .sysfs_root = std::move(plugin.sysfs_root)};
}

std::string kernel_sysfs() {
  const char* path = std::getenv("SYSFS_PATH");
  return path != nullptr && *path != '\0' ? path : "/sys";
}

Expected<DeviceOrigin> find_origin() {
  if (const PreloadError preloaded = preload(); preloaded != nullptr) {
    if (const int error = preloaded(); error != 0) {
      return fail(error, "the preloaded shim has no soft devices");
    }
  } else if (std::getenv(kSoftDevices) != nullptr) {
    auto origin = soft_devices();
    if (!origin) {
      fmt::print(stderr, "umlx5: no soft devices: {}\n", origin.error().message());  // as the preloaded shim does
    }
    return origin;
  }
  const std::string sysfs = kernel_sysfs();
  return DeviceOrigin{.source = new uapi::KernelDevices({.sysfs_root = sysfs}), .sysfs_root = sysfs};
}

}  // namespace

// Never destroyed: exit handlers of programs may still close devices.
const Expected<DeviceOrigin>& device_origin() {
  static const auto* const origin = new Expected<DeviceOrigin>(find_origin());
  return *origin;
}

}  // namespace umlx5::verbs
