// The soft devices that UMLX5_SOFT_DEVICES and its neighbours ask for, as a plug-in.
#include <cstdlib>
#include <memory>
#include <utility>

#include "tools/softhca/preload/sysfs_tree.h"
#include "tools/softhca/source.h"
#include "uapi/device_plugin.h"

namespace {

using softhca::preload::SysfsTree;
using umlx5::Expected;
using umlx5::uapi::DevicePlugin;

SysfsTree* tree = nullptr;  // never destroyed: exit handlers of programs may still read it

Expected<DevicePlugin> make() {
  const auto count = softhca::device_count_from_environment();
  if (!count) {
    return std::unexpected(count.error());
  }
  auto source = std::make_unique<softhca::SoftDeviceSource>(*count);
  auto made = SysfsTree::create(*source);
  if (!made) {
    return std::unexpected(made.error());
  }
  tree = new SysfsTree(std::move(*made));
  std::atexit([] { tree->remove(); });
  return DevicePlugin{.source = source.release(), .sysfs_root = tree->root()};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) bool umlx5_device_plugin(DevicePlugin& plugin, umlx5::Error& error) {
  auto made = make();
  if (!made) {
    error = std::move(made.error());
    return false;
  }
  plugin = std::move(*made);
  return true;
}
