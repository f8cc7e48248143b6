// Finding a device by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "driver/context.h"

namespace umlx5 {

Expected<std::unique_ptr<Context>> open_device(std::span<uapi::DeviceSource* const> sources, std::string_view name,
                                               const ContextOptions& options) {
  std::vector<std::string> names;
  for (uapi::DeviceSource* source : sources) {
    const auto devices = source->list();
    if (!devices) {
      return std::unexpected(devices.error());
    }
    for (const uapi::DeviceInfo& device : *devices) {
      if (!name.empty() && device.name != name) {
        names.push_back(device.name);
        continue;
      }
      auto channel = source->open(device);
      if (!channel) {
        return std::unexpected(std::move(channel.error()));
      }
      return Context::open(device, std::move(*channel), options);
    }
  }
  if (names.empty()) {
    return fail(ENODEV, "there is no mlx5 device");
  }
  return fail(ENODEV, fmt::format("there is no device {}; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace umlx5
