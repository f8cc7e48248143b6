#include "uapi/kernel_devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "uapi/file_descriptor.h"
#include "uapi/netlink_devices.h"

namespace umlx5::uapi {
namespace {

constexpr std::uint16_t kMellanoxVendor = 0x15b3;

// errno or the file's text without its final newline. sysfs attributes have a page at most.
std::expected<std::string, int> read_text(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::unexpected(errno);
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
  if (count < 0) return std::unexpected(errno);
  std::string text(buffer.data(), static_cast<std::size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Decimal, or hexadecimal after 0x; all of `text`.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::optional<T> read_number(const std::string& path) {
  const auto text = read_text(path);
  return text ? parse_number<T>(*text) : std::nullopt;
}

class CharacterDevice : public Channel {
 public:
  CharacterDevice(int fd, std::string sysfs_directory) : fd_(fd), sysfs_directory_(std::move(sysfs_directory)) {}

  int ioctl(ib_uverbs_ioctl_hdr& request) override {
    return ::ioctl(fd_.get(), RDMA_VERBS_IOCTL, &request) < 0 ? errno : 0;
  }

  int write(std::span<const std::byte> request) override {
    const ssize_t count = ::write(fd_.get(), request.data(), request.size());
    if (count < 0) return errno;
    return static_cast<std::size_t>(count) == request.size() ? 0 : EIO;
  }

  std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) override {
    // By the name that libraries which watch a program's memory (UCX) do not take over.
    void* address =
        ::mmap64(nullptr, length_bytes, protection, MAP_SHARED, fd_.get(), static_cast<off_t>(offset_bytes));
    if (address == MAP_FAILED) return std::unexpected(errno);
    return static_cast<std::byte*>(address);
  }

  int munmap(std::byte* address, std::size_t length_bytes) override {
    return ::munmap(address, length_bytes) < 0 ? errno : 0;
  }

  std::expected<std::string, int> attribute(std::string_view path) const override {
    if (path.empty() || path.starts_with('/') || path.find("..") != std::string_view::npos) {
      return std::unexpected(EINVAL);
    }
    return read_text(fmt::format("{}/{}", sysfs_directory_, path));
  }

  int descriptor() const noexcept override { return fd_.get(); }

 private:
  FileDescriptor fd_;
  std::string sysfs_directory_;
};

// A uverbs node before it is known whose it is.
struct Node {
  std::string name;  // "uverbs0"
  std::string device;
  int abi_version = 0;
  std::optional<std::uint32_t> driver_id;
};

// Number at the end of "uverbs12"; nothing for other names.
std::optional<unsigned> node_number(std::string_view name) {
  constexpr std::string_view kPrefix = "uverbs";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return parse_number<unsigned>(name.substr(kPrefix.size()));
}

std::vector<Node> nodes_from_netlink() {
  std::vector<Node> nodes;
  auto listed = list_netlink_nodes();
  if (!listed) return nodes;
  for (NetlinkNode& node : *listed) {
    if (!node_number(node.uverbs.node)) continue;
    nodes.push_back({std::move(node.uverbs.node), std::move(node.device.name),
                     static_cast<int>(node.uverbs.abi_version), node.uverbs.driver_id});
  }
  return nodes;
}

std::vector<Node> nodes_from_sysfs(const std::string& class_directory) {
  std::vector<Node> nodes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(class_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!node_number(name)) continue;
    auto device = read_text(fmt::format("{}/{}/ibdev", class_directory, name));
    const auto abi = read_number<int>(fmt::format("{}/{}/abi_version", class_directory, name));
    if (!device || !abi) continue;
    nodes.push_back({name, *std::move(device), *abi, std::nullopt});
  }
  return nodes;
}

// By the driver's number, else by the bound driver's name, else by the PCI identity: ConnectX from Connect-IB on, and
// BlueField. Older parts of the vendor belong to other drivers.
bool is_mlx5(const Node& node, const std::string& device_directory, const DeviceInfo& info) {
  if (node.driver_id) return *node.driver_id == RDMA_DRIVER_MLX5;
  std::error_code error;
  const auto driver = std::filesystem::read_symlink(device_directory + "/driver", error);
  if (!error) return driver.filename().string().starts_with("mlx5_core");
  const std::uint16_t id = info.device_id;
  return info.vendor_id == kMellanoxVendor && ((id >= 0x1011 && id <= 0x10ff) || (id >= 0xa2d0 && id <= 0xa2ff));
}

std::string describe_mode(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "its directory is closed to this user";
  return fmt::format("its mode is {:04o}, owner {}, group {}", status.st_mode & 07777, status.st_uid, status.st_gid);
}

Error open_error(const std::string& path, int errno_value) {
  const auto text = [&]() -> std::string {
    switch (errno_value) {
      case EACCES:
      case EPERM:
        return fmt::format("user {} may not read and write it; {}", ::geteuid(), describe_mode(path));
      case ENOENT:
        return "there is no such device node; is the ib_uverbs module loaded and /dev populated?";
      case ENODEV:
      case ENXIO:
        return "no device is behind the node; it was removed, or is not visible in this container";
      case EBUSY:
        return "the device is being reset or removed";
      case EMFILE:
      case ENFILE:
        return "too many files are open";
      default:
        return "the kernel refused";
    }
  };
  return {errno_value, fmt::format("open {}: {}", path, text())};
}

}  // namespace

std::unique_ptr<Channel> make_character_device(int fd, std::string sysfs_directory) {
  return std::make_unique<CharacterDevice>(fd, std::move(sysfs_directory));
}

KernelDevices::KernelDevices(Options options) : options_(std::move(options)) {}

Expected<std::vector<DeviceInfo>> KernelDevices::list() {
  const std::string class_directory = options_.sysfs_root + "/class/infiniband_verbs";
  std::vector<Node> nodes;
  if (options_.use_netlink) nodes = nodes_from_netlink();
  if (nodes.empty()) nodes = nodes_from_sysfs(class_directory);
  std::ranges::sort(nodes, {}, [](const Node& node) { return node_number(node.name); });

  std::vector<DeviceInfo> devices;
  for (const Node& node : nodes) {
    const std::string directory = fmt::format("{}/{}/device", class_directory, node.name);
    DeviceInfo info;
    info.name = node.device;
    info.path = fmt::format("{}/infiniband/{}", options_.dev_root, node.name);
    info.node = node.name;
    info.vendor_id = read_number<std::uint16_t>(directory + "/vendor").value_or(0);
    info.device_id = read_number<std::uint16_t>(directory + "/device").value_or(0);
    info.abi_version = node.abi_version;
    if (is_mlx5(node, directory, info)) devices.push_back(std::move(info));
  }
  return devices;
}

Expected<std::unique_ptr<Channel>> KernelDevices::open(const DeviceInfo& device) {
  if (device.software || device.name.empty() || device.name.find('/') != std::string::npos) {
    return fail(EINVAL, fmt::format("open {}: \"{}\" is no device of the kernel", device.path, device.name));
  }
  if (device.abi_version != MLX5_IB_UVERBS_ABI_VERSION) {
    return fail(EPROTONOSUPPORT, fmt::format("open {}: the kernel's mlx5 interface is version {}, known here is {}",
                                             device.path, device.abi_version, MLX5_IB_UVERBS_ABI_VERSION));
  }
  const int fd = ::open(device.path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::unexpected(open_error(device.path, errno));
  return make_character_device(fd, fmt::format("{}/class/infiniband/{}", options_.sysfs_root, device.name));
}

}  // namespace umlx5::uapi
