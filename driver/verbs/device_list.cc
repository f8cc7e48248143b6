#include "driver/verbs/device_list.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/verbs/context_open.h"
#include "driver/verbs/device_origin.h"
#include "uapi/netlink_devices.h"

namespace umlx5::verbs {
namespace {

// Cut to what the structure holds, and always ended.
template <std::size_t kBytes>
void put_text(char (&to)[kBytes], std::string_view from) {
  const std::size_t count = std::min(from.size(), kBytes - 1);
  std::memcpy(to, from.data(), count);
  to[count] = '\0';
}

struct Devices {
  std::mutex mutex;
  std::vector<DeviceObject*> known;  // each holds one reference
};

// As the manual of ibv_fork_init() says, these variables have its effect.
void guard_forks_if_asked() {
  const bool asked = std::getenv("RDMAV_FORK_SAFE") != nullptr || std::getenv("IBV_FORK_SAFE") != nullptr;
  if (asked && ibv_fork_init() != 0) {
    fmt::print(stderr, "umlx5: RDMAV_FORK_SAFE or IBV_FORK_SAFE is set, and it is too late: memory is registered\n");
  }
}

// Never destroyed: exit handlers of programs may still close devices.
Devices& devices() {
  static auto* const all = [] {
    guard_forks_if_asked();
    return new Devices;
  }();
  return *all;
}

// RDMA netlink's numbers of the devices; none where the kernel has no RDMA netlink.
std::map<std::string, int> device_indices() {
  std::map<std::string, int> indices;
  if (const auto nodes = uapi::list_netlink_nodes()) {
    for (const uapi::NetlinkNode& node : *nodes) {
      indices[node.device.name] = static_cast<int>(node.device.index);
    }
  }
  return indices;
}

DeviceObject* make_device(const uapi::DeviceInfo& info, uapi::DeviceSource& source, int index) {
  auto* device = new DeviceObject;
  const std::string_view node = info.node;
  device->device.node_type = IBV_NODE_CA;
  device->device.transport_type = IBV_TRANSPORT_IB;
  put_text(device->device.name, info.name);
  put_text(device->device.dev_name, node);
  put_text(device->device.dev_path, fmt::format("{}/class/infiniband_verbs/{}", sysfs_path(), node));
  put_text(device->device.ibdev_path, fmt::format("{}/class/infiniband/{}", sysfs_path(), info.name));
  device->info = info;
  device->source = &source;
  device->index = index;
  device->open = open_context;
  return device;
}

bool same_device(const DeviceObject& known, const uapi::DeviceInfo& info, int index) {
  return known.info.name == info.name && known.info.path == info.path && known.index == index;
}

// Makes `all.known` what `source` lists.
Expected<void> refresh(Devices& all, uapi::DeviceSource& source) {
  const auto found = source.list();
  if (!found) {
    return std::unexpected(found.error());
  }
  const auto indices = device_indices();
  std::vector<DeviceObject*> now;
  for (const uapi::DeviceInfo& info : *found) {
    const auto number = indices.find(info.name);
    const int index = number == indices.end() ? -1 : number->second;
    const auto old =
        std::ranges::find_if(all.known, [&](const DeviceObject* known) { return same_device(*known, info, index); });
    if (old == all.known.end()) {
      now.push_back(make_device(info, source, index));
    } else {
      now.push_back(*old);
      all.known.erase(old);
    }
  }
  std::swap(all.known, now);
  std::ranges::for_each(now, [](DeviceObject* gone) { release(*gone); });
  return {};
}

}  // namespace

const char* sysfs_path() {
  const auto& origin = device_origin();
  return origin ? origin->sysfs_root.c_str() : "/sys";
}

Expected<DeviceObject**> list_devices(std::size_t& count) {
  const auto& origin = device_origin();
  if (!origin) {
    return std::unexpected(origin.error());
  }
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  if (auto result = refresh(all, *origin->source); !result) {
    return std::unexpected(std::move(result.error()));
  }
  const std::string verbs_class = fmt::format("{}/class/infiniband_verbs", sysfs_path());
  if (all.known.empty() && ::access(verbs_class.c_str(), F_OK) != 0) {
    return fail(ENOSYS, fmt::format("device list: there is no {}; is the ib_uverbs module loaded?", verbs_class));
  }
  auto** list = static_cast<DeviceObject**>(std::calloc(all.known.size() + 1, sizeof(DeviceObject*)));
  if (list == nullptr) {
    return fail(ENOMEM, "device list: no memory");
  }
  for (DeviceObject* device : all.known) {
    hold(*device);
  }
  std::ranges::copy(all.known, list);
  count = all.known.size();
  return list;
}

void free_device_list(DeviceObject** list) {
  for (DeviceObject** device = list; *device != nullptr; ++device) {
    release(**device);
  }
  std::free(list);
}

void hold(DeviceObject& device) { device.references.fetch_add(1, std::memory_order_relaxed); }

void release(DeviceObject& device) {
  if (device.references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete &device;
  }
}

}  // namespace umlx5::verbs
