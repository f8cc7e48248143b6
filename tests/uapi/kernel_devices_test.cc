// The kernel's devices on a machine made of files: a sysfs tree and device nodes in a temporary directory.
#include "uapi/kernel_devices.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "uapi/file_descriptor.h"
#include "uapi/netlink_devices.h"

namespace umlx5::uapi {
namespace {

namespace fs = std::filesystem;

class KernelDevicesTest : public ::testing::Test {
 protected:
  KernelDevicesTest() {
    std::string pattern = ::testing::TempDir() + "umlx5_devices_XXXXXX";
    root = ::mkdtemp(pattern.data());
  }
  ~KernelDevicesTest() override { fs::remove_all(root); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }

  // A device as the kernel shows it.
  void add(const std::string& node, const std::string& name, const std::string& vendor, const std::string& device,
           const std::string& abi = "1") const {
    const std::string directory = "sys/class/infiniband_verbs/" + node;
    put(directory + "/ibdev", name + "\n");
    put(directory + "/abi_version", abi + "\n");
    if (!vendor.empty()) put(directory + "/device/vendor", vendor + "\n");
    if (!device.empty()) put(directory + "/device/device", device + "\n");
    put("sys/class/infiniband/" + name + "/ports/1/pkeys/0", "0xffff\n");
    put("dev/infiniband/" + node, std::string(8192, 'x'));
  }

  void bind(const std::string& node, const std::string& driver) const {
    fs::create_directories(root / "sys/bus/drivers" / driver);
    fs::create_directories(root / "sys/class/infiniband_verbs" / node / "device");
    fs::create_directory_symlink(root / "sys/bus/drivers" / driver,
                                 root / "sys/class/infiniband_verbs" / node / "device/driver");
  }

  KernelDevices devices() const {
    return KernelDevices({.sysfs_root = root / "sys", .dev_root = root / "dev", .use_netlink = false});
  }

  std::vector<std::string> names() const {
    auto listed = devices().list();
    EXPECT_TRUE(listed);
    std::vector<std::string> result;
    for (const DeviceInfo& device : *listed) result.push_back(device.name);
    return result;
  }

  int open_errno(const DeviceInfo& device, std::string* what = nullptr) const {
    const auto channel = devices().open(device);
    if (channel) return 0;
    if (what != nullptr) *what = channel.error().what;
    return channel.error().errno_value;
  }

  fs::path root;
};

TEST_F(KernelDevicesTest, NoRdmaIsAnEmptyList) { EXPECT_TRUE(names().empty()); }

TEST_F(KernelDevicesTest, NetlinkDegradesToSysfs) {
  // Whatever this machine's netlink says, files that nobody has are no devices.
  KernelDevices source({.sysfs_root = root / "sys", .dev_root = root / "dev", .use_netlink = true});
  const auto nodes = list_netlink_nodes();
  const auto listed = source.list();
  ASSERT_TRUE(listed);
  if (!nodes) {
    EXPECT_EQ(nodes.error().errno_value, EPROTONOSUPPORT);
    EXPECT_TRUE(listed->empty());
    add("uverbs0", "mlx5_0", "0x15b3", "0x101d");
    EXPECT_EQ(source.list()->size(), 1u);
  }
}

TEST_F(KernelDevicesTest, DeviceInfo) {
  add("uverbs0", "mlx5_0", "0x15b3", "0x101d");
  const auto listed = devices().list();
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1u);
  const DeviceInfo& device = listed->front();
  EXPECT_EQ(device.name, "mlx5_0");
  EXPECT_EQ(device.path, (root / "dev/infiniband/uverbs0").string());
  EXPECT_EQ(device.vendor_id, 0x15b3);
  EXPECT_EQ(device.device_id, 0x101d);
  EXPECT_EQ(device.abi_version, 1);
  EXPECT_FALSE(device.software);
}

TEST_F(KernelDevicesTest, NodesAreInTheOrderOfTheirNumbers) {
  for (const char* number : {"10", "2", "0", "1"}) {
    add(std::string("uverbs") + number, std::string("mlx5_") + number, "0x15b3", "0x101d");
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10"}));
}

TEST_F(KernelDevicesTest, OtherDevicesAreLeftOut) {
  add("uverbs0", "rxe0", "", "", "1");
  add("uverbs1", "mlx4_0", "0x15b3", "0x1003", "4");  // ConnectX-3
  add("uverbs2", "bnxt_re0", "0x14e4", "0x1750");
  add("uverbs3", "mlx5_0", "0x15b3", "0x1011");  // Connect-IB, the first of mlx5
  add("uverbs4", "mlx5_1", "0x15b3", "0xa2dc");  // BlueField-3
  add("uverbs5", "other", "0x15b3", "0x101d");   // bound to another driver
  bind("uverbs5", "vfio-pci");
  add("uverbs6", "mlx5_2", "", "");  // a scalable function has no PCI identity
  bind("uverbs6", "mlx5_core.sf");
  put("sys/class/infiniband_verbs/abi_version", "6\n");
  fs::create_directories(root / "sys/class/infiniband_verbs/uverbs7");  // vanishing
  fs::create_directories(root / "sys/class/infiniband_verbs/uverbsX");
  EXPECT_EQ(names(), (std::vector<std::string>{"mlx5_0", "mlx5_1", "mlx5_2"}));
}

TEST_F(KernelDevicesTest, UnreadableNumbersAreNoDevice) {
  add("uverbs0", "mlx5_0", "junk", "0x101d");
  add("uverbs1", "mlx5_1", "0x15b3", "0x101d", "one");
  EXPECT_TRUE(names().empty());
}

TEST_F(KernelDevicesTest, TheChannelReachesTheNode) {
  add("uverbs0", "mlx5_0", "0x15b3", "0x101d");
  const auto channel = devices().open(devices().list()->front());
  ASSERT_TRUE(channel) << channel.error().what;
  ib_uverbs_ioctl_hdr header{};
  header.length = sizeof(header);
  EXPECT_EQ((*channel)->ioctl(header), ENOTTY) << "a file is no RDMA device";
  const std::array<std::byte, 4> message{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  EXPECT_EQ((*channel)->write(message), 0);
  std::ifstream file(root / "dev/infiniband/uverbs0");
  std::string start(4, '\0');
  file.read(start.data(), 4);
  EXPECT_EQ(start, "\x01\x02\x03\x04");

  const auto page = (*channel)->mmap(4096, PROT_READ | PROT_WRITE, 4096);
  ASSERT_TRUE(page);
  EXPECT_EQ(**page, std::byte{'x'});
  **page = std::byte{'y'};
  file.seekg(4096);
  EXPECT_EQ(file.get(), 'y') << "the mapping is shared";
  EXPECT_EQ((*channel)->munmap(*page, 4096), 0);
  EXPECT_EQ((*channel)->munmap(*page + 1, 4096), EINVAL);
  EXPECT_EQ((*channel)->mmap(4096, PROT_READ, 1).error(), EINVAL);

  EXPECT_EQ((*channel)->attribute("ports/1/pkeys/0"), "0xffff");
  EXPECT_EQ((*channel)->attribute("ports/1/pkeys/1").error(), ENOENT);
  EXPECT_EQ((*channel)->attribute("../mlx5_0/ports/1/pkeys/0").error(), EINVAL);
  EXPECT_EQ((*channel)->attribute("/etc/passwd").error(), EINVAL);
  EXPECT_EQ((*channel)->attribute("").error(), EINVAL);
}

TEST_F(KernelDevicesTest, AWriteThatTheDeviceCutsShortFails) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor reader(ends[0]);
  const auto channel = make_character_device(ends[1], root);
  const std::vector<std::byte> message(1 << 20);  // more than a pipe takes
  EXPECT_EQ(channel->write(message), EIO);
  EXPECT_EQ(channel->write(message), EAGAIN);
}

TEST_F(KernelDevicesTest, OpenErrorsSayWhy) {
  add("uverbs0", "mlx5_0", "0x15b3", "0x101d");
  DeviceInfo device = devices().list()->front();
  std::string what;

  fs::remove(device.path);
  EXPECT_EQ(open_errno(device, &what), ENOENT);
  EXPECT_NE(what.find(device.path + ": there is no such device node"), std::string::npos) << what;

  // A socket cannot be opened: ENXIO. It is bound through its directory's descriptor because paths of sockets are
  // short.
  const FileDescriptor directory(::open(fs::path(device.path).parent_path().c_str(), O_PATH | O_CLOEXEC));
  const std::string short_path = "/proc/self/fd/" + std::to_string(directory.get()) + "/uverbs0";
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(short_path.begin(), short_path.end(), address.sun_path);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(open_errno(device, &what), ENXIO);
  EXPECT_NE(what.find("no device is behind the node"), std::string::npos) << what;

  device.abi_version = 2;
  EXPECT_EQ(open_errno(device, &what), EPROTONOSUPPORT);
  EXPECT_NE(what.find("version 2, known here is 1"), std::string::npos) << what;
  device.abi_version = 1;
  device.name = "../x";
  EXPECT_EQ(open_errno(device), EINVAL);
  device.name = "mlx5_0";
  device.software = true;
  EXPECT_EQ(open_errno(device), EINVAL);
}

// Takes root's right to ignore file modes from this thread for a while.
class WithoutOverride {
 public:
  WithoutOverride() {
    EXPECT_EQ(::syscall(SYS_capget, &header_, saved_), 0);
    __user_cap_data_struct reduced[2] = {saved_[0], saved_[1]};
    reduced[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    EXPECT_EQ(::syscall(SYS_capset, &header_, reduced), 0);
  }
  ~WithoutOverride() { EXPECT_EQ(::syscall(SYS_capset, &header_, saved_), 0); }

 private:
  __user_cap_header_struct header_{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct saved_[2]{};
};

TEST_F(KernelDevicesTest, WithoutPermission) {
  add("uverbs0", "mlx5_0", "0x15b3", "0x101d");
  const DeviceInfo device = devices().list()->front();
  ASSERT_EQ(::chmod(device.path.c_str(), 0440), 0);
  const WithoutOverride reduced;
  std::string what;
  EXPECT_EQ(open_errno(device, &what), EACCES);
  const std::string user = std::to_string(::geteuid());
  EXPECT_EQ(what, "open " + device.path + ": user " + user + " may not read and write it; its mode is 0440, owner " +
                      user + ", group " + std::to_string(::getegid()));
}

}  // namespace
}  // namespace umlx5::uapi
