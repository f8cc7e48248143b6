// What libibverbs exports of devices and contexts.
#include <endian.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <span>
#include <string_view>

#include "driver/verbs/context_open.h"
#include "driver/verbs/device_list.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "driver/verbs/sysfs.h"

namespace umlx5::verbs {
namespace {

// "0200:00ff:7f00:0004" in host order; 0 if it is nothing like that.
std::uint64_t parse_guid(std::string_view text) {
  std::uint64_t guid = 0;
  for (int group = 0; group < 4; ++group) {
    std::uint16_t value = 0;
    if (text.size() < 4 || std::from_chars(text.data(), text.data() + 4, value, 16).ec != std::errc{}) {
      return 0;
    }
    guid = guid << 16 | value;
    text.remove_prefix(text.size() > 4 ? 5 : 4);
  }
  return guid;
}

// Whether `descriptor` is open on `device`: sysfs tells the node's number as "major:minor".
bool is_of(const DeviceObject& device, const struct stat& descriptor) {
  std::array<char, 32> text{};
  unsigned major_number = 0;
  unsigned minor_number = 0;
  return read_text(device.device.dev_path, "dev", text) > 0 &&
         std::sscanf(text.data(), "%u:%u", &major_number, &minor_number) == 2 &&
         descriptor.st_rdev == makedev(major_number, minor_number);
}

ibv_context* import_device(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISCHR(status.st_mode)) {
    return report_null({EINVAL, fmt::format("import: descriptor {} is no character device", descriptor)});
  }
  std::size_t count = 0;
  const auto list = list_devices(count);
  if (!list) {
    return report_null(list.error());
  }
  const std::span devices(*list, count);
  const auto found = std::ranges::find_if(devices, [&](const DeviceObject* device) { return is_of(*device, status); });
  ContextObject* context =
      found == devices.end()
          ? report_null({ENODEV, fmt::format("import: descriptor {} is of no device here", descriptor)})
          : import_context(**found, descriptor);
  free_device_list(*list);
  return context == nullptr ? nullptr : &context->verbs.context;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5::verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) {
    *num_devices = 0;
  }
  std::size_t count = 0;
  const auto list = list_devices(count);
  if (!list) {
    return report_null(list.error());
  }
  if (num_devices != nullptr) {
    *num_devices = static_cast<int>(count);
  }
  static_assert(offsetof(DeviceObject, device) == 0);
  return reinterpret_cast<ibv_device**>(*list);
}

void ibv_free_device_list(ibv_device** list) { free_device_list(reinterpret_cast<DeviceObject**>(list)); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) { return object_of(device).index; }

__be64 ibv_get_device_guid(ibv_device* device) {
  std::array<char, 32> text{};
  if (read_text(device->ibdev_path, "node_guid", text) < 0) {
    return 0;
  }
  return htobe64(parse_guid(text.data()));
}

ibv_context* ibv_open_device(ibv_device* device) {
  DeviceObject& object = object_of(device);
  ContextObject* context = object.open(object, {});
  return context == nullptr ? nullptr : &context->verbs.context;
}

ibv_context* ibv_import_device(int cmd_fd) { return import_device(cmd_fd); }

int ibv_close_device(ibv_context* context) {
  close_context(object_of(context));
  return 0;
}

}  // extern "C"
