// Which device a command runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "uapi/channel.h"
#include "uapi/error.h"

namespace umlx5::tools {

struct FoundDevice {
  uapi::DeviceInfo info;
  uapi::DeviceSource* source = nullptr;
};

enum class Prefer : std::uint8_t { kHardware, kSoftware };

// The devices of all sources, those of the first source first. Errors: what a source says.
Expected<std::vector<FoundDevice>> list_devices(std::span<uapi::DeviceSource* const> sources);

// The device called `name`; "soft" is the first software device. An empty name is the first device of the preferred
// kind, or, if there is none, the first of the other kind. Errors: ENODEV, with the names of those that exist.
Expected<FoundDevice> choose_device(const std::vector<FoundDevice>& devices, std::string_view name, Prefer prefer);

}  // namespace umlx5::tools
