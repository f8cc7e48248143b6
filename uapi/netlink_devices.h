// What RDMA netlink (RDMA_NL_NLDEV of <rdma/rdma_netlink.h>) tells about the devices of this network namespace.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "uapi/error.h"

namespace umlx5::uapi {

struct NetlinkDevice {
  std::uint32_t index = 0;  // netlink's
  std::string name;         // "mlx5_0"
};

struct NetlinkUverbs {
  std::string node;                        // "uverbs0"
  std::uint64_t abi_version = 0;           // of the driver-private part
  std::optional<std::uint32_t> driver_id;  // enum rdma_driver_id; older kernels do not tell
};

// One message each of NLDEV_CMD_GET and NLDEV_CMD_GET_CHARDEV. Nothing if it lacks what is needed or is no such
// message. `message` is whole: message.nlmsg_len bytes are there.
std::optional<NetlinkDevice> parse_netlink_device(const nlmsghdr& message);
std::optional<NetlinkUverbs> parse_netlink_uverbs(const nlmsghdr& message);

struct NetlinkNode {
  NetlinkDevice device;
  NetlinkUverbs uverbs;
};

// The devices that have a uverbs node. Any error means: ask sysfs (EPROTONOSUPPORT where the kernel has no RDMA
// netlink). Waits for the kernel two seconds at most per answer.
Expected<std::vector<NetlinkNode>> list_netlink_nodes();

// Whether fork() copies pages that a device uses, so that nothing need be done about them (RDMA_NLDEV_CMD_SYS_GET).
bool kernel_copies_on_fork();

}  // namespace umlx5::uapi
