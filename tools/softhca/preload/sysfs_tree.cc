#include "tools/softhca/preload/sysfs_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace softhca::preload {

namespace fs = std::filesystem;
using umlx5::Expected;
using umlx5::fail;

namespace {

constexpr std::string_view kPrefix = "umlx5-sysfs.";
constexpr std::string_view kUverbsNode = "/dev/infiniband/uverbs";

// /dev/null is a character device that takes any open: the number that stat() of an opened node will show.
constexpr std::string_view kNullDevice = "1:3";

constexpr std::array<std::string_view, 49> kDeviceAttributes = {
    "node_type",
    "node_guid",
    "sys_image_guid",
    "fw_ver",
    "board_id",
    "hca_type",
    "hw_rev",
    "node_desc",
    "device/vendor",
    "device/device",
    "device/subsystem_vendor",
    "device/subsystem_device",
    "device/modalias",
    "device/numa_node",
    "device/local_cpus",
    "device/local_cpulist",
    "device/class",
    "device/uevent",
    "ports/1/state",
    "ports/1/phys_state",
    "ports/1/rate",
    "ports/1/lid",
    "ports/1/lid_mask_count",
    "ports/1/sm_lid",
    "ports/1/sm_sl",
    "ports/1/cap_mask",
    "ports/1/link_layer",
    "ports/1/pkeys/0",
    "ports/1/counters/port_xmit_data",
    "ports/1/counters/port_rcv_data",
    "ports/1/counters/port_xmit_packets",
    "ports/1/counters/port_rcv_packets",
    "ports/1/counters/unicast_xmit_packets",
    "ports/1/counters/unicast_rcv_packets",
    "ports/1/counters/multicast_xmit_packets",
    "ports/1/counters/multicast_rcv_packets",
    "ports/1/counters/port_rcv_errors",
    "ports/1/counters/port_xmit_discards",
    "ports/1/hw_counters/rx_write_requests",
    "ports/1/hw_counters/rx_read_requests",
    "ports/1/hw_counters/rx_atomic_requests",
    "ports/1/hw_counters/out_of_buffer",
    "ports/1/hw_counters/out_of_sequence",
    "ports/1/hw_counters/duplicate_request",
    "ports/1/hw_counters/rnr_nak_retry_err",
    "ports/1/hw_counters/packet_seq_err",
    "ports/1/hw_counters/implied_nak_seq_err",
    "ports/1/hw_counters/local_ack_timeout_err",
    "ports/1/hw_counters/req_rnr_retries_exceeded",
};
constexpr unsigned kMaxGids = 256;

void put(const fs::path& file, std::string_view text) {
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  std::ofstream(file) << text << '\n';
}

// Some hundred small files are made at each start: on a disk, most of the time that a short program takes.
fs::path folder_of_trees() {
  const char* const memory = "/dev/shm";
  return access(memory, R_OK | W_OK | X_OK) == 0 ? fs::path(memory) : fs::temp_directory_path();
}

// The lock that a tree's process holds while it lives, its forked children included; -1 if it cannot be had.
int lock_tree(const fs::path& tree) {
  const int fd = open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

void remove_dead_trees(const fs::path& where) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(where, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) {
      continue;
    }
    if (const int fd = lock_tree(entry.path()); fd >= 0) {
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
      close(fd);
    }
  }
}

void put_device(const fs::path& root, std::size_t number, const umlx5::uapi::DeviceInfo& device,
                const umlx5::uapi::Channel& channel) {
  // As sysfs has it: the device under its PCI function, and links to it.
  std::error_code ignored;
  const std::string function = fmt::format("0000:{:02x}:00.0", number + 1);
  const fs::path bus = "devices/pci0000:00";
  const fs::path ibdev = root / bus / function / "infiniband" / device.name;
  fs::create_directories(ibdev, ignored);
  fs::create_directory_symlink(fs::path("../../..") / function, ibdev / "device", ignored);
  fs::create_directories(root / "class/infiniband", ignored);
  fs::create_directory_symlink(fs::path("../..") / bus / function / "infiniband" / device.name,
                               root / "class/infiniband" / device.name, ignored);
  for (const auto path : kDeviceAttributes) {
    if (const auto text = channel.attribute(path)) {
      put(ibdev / path, *text);
    }
  }
  for (unsigned i = 0; i < kMaxGids; ++i) {
    const auto gid = channel.attribute(fmt::format("ports/1/gids/{}", i));
    if (!gid) {
      break;
    }
    put(ibdev / fmt::format("ports/1/gids/{}", i), *gid);
    for (const auto kind : {"types", "ndevs"}) {
      if (const auto text = channel.attribute(fmt::format("ports/1/gid_attrs/{}/{}", kind, i))) {
        put(ibdev / fmt::format("ports/1/gid_attrs/{}/{}", kind, i), *text);
      }
    }
  }
  const fs::path uverbs = root / fmt::format("class/infiniband_verbs/uverbs{}", number);
  put(uverbs / "ibdev", device.name);
  put(uverbs / "dev", kNullDevice);
  put(uverbs / "abi_version", fmt::format("{}", device.abi_version));
  fs::create_directory_symlink(fs::path("../../..") / bus / function, uverbs / "device", ignored);
  fs::create_directories(ibdev / fmt::format("device/infiniband_verbs/uverbs{}", number), ignored);
  put(root / fmt::format("dev/uverbs{}", number), "");
}

}  // namespace

Expected<SysfsTree> SysfsTree::create(umlx5::uapi::DeviceSource& source) {
  const fs::path where = folder_of_trees();
  remove_dead_trees(where);
  SysfsTree tree;
  // Between making and locking it, another process may take the tree for a dead one's.
  constexpr int kAttempts = 100;
  for (int attempt = 0; tree.lock_ < 0 && attempt < kAttempts; ++attempt) {
    std::string pattern = (where / fmt::format("{}XXXXXX", kPrefix)).string();
    if (mkdtemp(pattern.data()) == nullptr) {
      return fail(errno, fmt::format("cannot make the directory {}", pattern));
    }
    tree.root_ = pattern;
    tree.lock_ = lock_tree(tree.root_);
    if (tree.lock_ >= 0 && !fs::exists(tree.root_)) {
      close(std::exchange(tree.lock_, -1));
    }
  }
  if (tree.lock_ < 0) {
    return fail(EBUSY, fmt::format("cannot lock a directory in {}", where.string()));
  }
  tree.owner_pid_ = getpid();
  const auto devices = source.list();
  if (!devices) {
    tree.remove();
    return std::unexpected(devices.error());
  }
  put(fs::path(tree.root_) / "class/infiniband_verbs/abi_version", "6");
  // The last one first: programs find the devices in the order in which a directory lists them, and one in memory
  // begins with what is newest.
  tree.devices_ = devices->size();
  for (std::size_t number = devices->size(); number-- > 0;) {
    const auto& device = (*devices)[number];
    const auto channel = source.open(device);
    if (!channel) {
      tree.remove();
      return std::unexpected(channel.error());
    }
    put_device(tree.root_, number, device, **channel);
  }
  return tree;
}

bool SysfsTree::is_own_process() const { return getpid() == owner_pid_; }

void SysfsTree::remove() {
  if (!root_.empty() && is_own_process()) {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
    root_.clear();
  }
}

void SysfsTree::refresh(std::string_view path, umlx5::uapi::DeviceSource& source) const {
  constexpr std::string_view kTop = "/sys/class/infiniband/";
  const std::size_t attribute = path.find("/ports/1/", kTop.size());
  if (!path.starts_with(kTop) || path.find("counters/") == path.npos || attribute == path.npos) {
    return;
  }
  const auto devices = source.list();
  const std::string_view name = path.substr(kTop.size(), attribute - kTop.size());
  for (std::size_t i = 0; devices && i < devices->size(); ++i) {
    if ((*devices)[i].name != name) {
      continue;
    }
    const auto channel = source.open((*devices)[i]);
    if (const auto text = channel ? (*channel)->attribute(path.substr(attribute + 1)) : std::unexpected(ENODEV)) {
      put(fs::path(root_) / path.substr(sizeof "/sys"), *text);
    }
  }
}

std::optional<std::string> SysfsTree::redirect(std::string_view path) const {
  for (const std::string_view top : {"/sys/class/infiniband", "/sys/class/infiniband_verbs"}) {
    if (path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/')) {
      return root_ + std::string(path.substr(4));
    }
  }
  if (const auto number = device_number(path)) {
    return "/dev/null";
  }
  if (path == "/dev/infiniband" || path == "/dev/infiniband/") {
    return root_ + "/dev";
  }
  return std::nullopt;
}

std::optional<std::size_t> SysfsTree::device_number(std::string_view path) const {
  if (!path.starts_with(kUverbsNode)) {
    return std::nullopt;
  }
  path.remove_prefix(kUverbsNode.size());
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), number);
  if (error != std::errc{} || end != path.data() + path.size() || number >= devices_) {
    return std::nullopt;
  }
  return number;
}

}  // namespace softhca::preload
