// The way to one device's kernel interface: the uverbs character device, or something that answers like it.
#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "uapi/error.h"

namespace umlx5::uapi {

// One open context of one device. Closing it (the destructor) releases everything that was created through it.
// All members may be called from several threads at once, as the character device may.
// Integers returned as errors are positive errno values.
class Channel {
 public:
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // RDMA_VERBS_IOCTL: `request` is followed in memory by its num_attrs attributes, request.length bytes in all. 0 or
  // errno.
  virtual int ioctl(ib_uverbs_ioctl_hdr& request) = 0;

  // The write() ABI: header, command and driver part in one buffer. 0 or errno.
  virtual int write(std::span<const std::byte> request) = 0;

  // mmap() of the device: shared, at `offset_bytes` (a multiple of the page size) as the kernel encodes it.
  virtual std::expected<std::byte*, int> mmap(std::size_t length_bytes, int protection, std::uint64_t offset_bytes) = 0;

  // Takes back what mmap() gave, whole. 0 or errno.
  virtual int munmap(std::byte* address, std::size_t length_bytes) = 0;

  // Text of a sysfs attribute of the RDMA device without its final newline, for example "ports/1/pkeys/0". Errno if
  // unreadable.
  virtual std::expected<std::string, int> attribute(std::string_view path) const = 0;

  // What a program calls between two polls of a queue that found nothing. The character device lets the CPU pause; a
  // software device uses the caller's time to do its work, which saves a change of threads.
  virtual void relax() noexcept;

  // The character device's descriptor, which stays the channel's; -1 where there is none.
  virtual int descriptor() const noexcept { return -1; }

  // File descriptors that requests return (completion channels, asynchronous events) are ordinary ones in either
  // implementation: the caller reads, polls and closes them.

 protected:
  Channel() = default;
};

inline void Channel::relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct DeviceInfo {
  std::string name;             // RDMA device, "mlx5_0"
  std::string path;             // what open() wants: "/dev/infiniband/uverbs0", or the address of a software device
  std::string node{};           // in sysfs' class infiniband_verbs, "uverbs0"
  std::uint16_t vendor_id = 0;  // PCI
  std::uint16_t device_id = 0;  // PCI part, 0x101d for ConnectX-6 Dx
  int abi_version = 0;          // of the driver-private part; 1 for mlx5
  bool software = false;        // no hardware behind it
};

// Where devices come from: the kernel (kernel_devices.h), or a software device.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;

  // The mlx5 devices that exist now; an empty list is no error. Other vendors' devices are left out.
  virtual Expected<std::vector<DeviceInfo>> list() = 0;

  // Opens a device that list() gave.
  virtual Expected<std::unique_ptr<Channel>> open(const DeviceInfo& device) = 0;
};

}  // namespace umlx5::uapi
