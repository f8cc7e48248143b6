#include "tools/cli/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace umlx5::tools {

Expected<std::vector<FoundDevice>> list_devices(std::span<uapi::DeviceSource* const> sources) {
  std::vector<FoundDevice> devices;
  for (uapi::DeviceSource* source : sources) {
    auto listed = source->list();
    if (!listed) {
      return std::unexpected(listed.error());
    }
    for (uapi::DeviceInfo& info : *listed) {
      devices.push_back({std::move(info), source});
    }
  }
  return devices;
}

Expected<FoundDevice> choose_device(const std::vector<FoundDevice>& devices, std::string_view name, Prefer prefer) {
  if (devices.empty()) {
    return fail(ENODEV, "there is no mlx5 device, and no software device (UMLX5_SOFT_DEVICES is 0)");
  }
  const auto first = [&](bool software) {
    return std::find_if(devices.begin(), devices.end(),
                        [&](const auto& device) { return device.info.software == software; });
  };
  auto found = devices.end();
  if (name.empty()) {
    found = first(prefer == Prefer::kSoftware);
    found = found == devices.end() ? devices.begin() : found;
  } else {
    found = std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return device.info.name == name; });
    if (found == devices.end() && name == "soft") {
      found = first(true);
    }
  }
  if (found != devices.end()) {
    return *found;
  }
  std::string names;
  for (const FoundDevice& device : devices) {
    names += (names.empty() ? "" : ", ") + device.info.name + (device.info.software ? " (software)" : "");
  }
  return fail(ENODEV, fmt::format("there is no device '{}'; there are: {}", name, names));
}

}  // namespace umlx5::tools
