// The sysfs entries that a program expects of an RDMA device, as a private directory tree.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "uapi/channel.h"
#include "uapi/error.h"

namespace softhca::preload {

// A tree of real files in memory, or else under a temporary directory. Trees of processes that died, which no longer
// hold the tree's lock, are removed when the next one is made. Thread-safe once created.
class SysfsTree {
 public:
  // The devices and their attributes as `source` has them now.
  static umlx5::Expected<SysfsTree> create(umlx5::uapi::DeviceSource& source);

  const std::string& root() const { return root_; }

  // False in a forked child of the process that made it, whose devices it shows.
  bool is_own_process() const;

  // Removes the tree from the disk, unless this is a forked child of the process that made it.
  void remove();

  // Brings the file that stands for `path` up to date if it is a counter's.
  void refresh(std::string_view path, umlx5::uapi::DeviceSource& source) const;

  // Where a path of the system's sysfs or /dev/infiniband lies in this tree; none if it is no path of an RDMA device.
  std::optional<std::string> redirect(std::string_view path) const;

  // N of "/dev/infiniband/uverbsN" if that is a device of this tree.
  std::optional<std::size_t> device_number(std::string_view path) const;

 private:
  SysfsTree() = default;
  std::string root_;
  int owner_pid_ = 0;
  int lock_ = -1;  // descriptor of the directory, locked for the life of the process
  std::size_t devices_ = 0;
};

}  // namespace softhca::preload
