#include "uapi/netlink_devices.h"

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace umlx5::uapi {
namespace {

struct SocketDeleter {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
struct MessageDeleter {
  void operator()(nl_msg* message) const { nlmsg_free(message); }
};
using Socket = std::unique_ptr<nl_sock, SocketDeleter>;
using Message = std::unique_ptr<nl_msg, MessageDeleter>;

using Attributes = std::array<nlattr*, RDMA_NLDEV_ATTR_MAX>;

// The attributes by their numbers; unknown ones are ignored.
std::optional<Attributes> parse(const nlmsghdr& message, unsigned command) {
  if (message.nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)) return std::nullopt;
  Attributes attributes{};
  // libnl's parameters lack a const; it does not write to the message.
  if (nlmsg_parse(const_cast<nlmsghdr*>(&message), 0, attributes.data(), RDMA_NLDEV_ATTR_MAX - 1, nullptr) < 0) {
    return std::nullopt;
  }
  return attributes;
}

std::optional<std::string> text(const nlattr* attribute) {
  if (attribute == nullptr) return std::nullopt;
  const auto* begin = static_cast<const char*>(nla_data(attribute));
  std::string value(begin, static_cast<std::size_t>(nla_len(attribute)));
  value.resize(std::string_view(value).substr(0, value.find('\0')).size());
  if (value.empty()) return std::nullopt;
  return value;
}

// Four or eight bytes: kernels differ.
std::optional<std::uint64_t> number(const nlattr* attribute) {
  if (attribute == nullptr) return std::nullopt;
  if (nla_len(attribute) == 4) return nla_get_u32(attribute);
  if (nla_len(attribute) == 8) return nla_get_u64(attribute);
  return std::nullopt;
}

Expected<Socket> connect() {
  Socket socket(nl_socket_alloc());
  if (!socket) return fail(ENOMEM, "RDMA netlink: no memory for a socket");
  nl_socket_disable_auto_ack(socket.get());
  if (nl_connect(socket.get(), NETLINK_RDMA) < 0) {
    return fail(EPROTONOSUPPORT, "RDMA netlink: the kernel does not have it");
  }
  const timeval limit{.tv_sec = 2, .tv_usec = 0};
  if (::setsockopt(nl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0) {
    return fail(errno, "RDMA netlink: the socket takes no time limit");
  }
  return socket;
}

// Sends `message` and gives every answer to `sink`.
template <typename Sink>
Expected<void> exchange(nl_sock* socket, nl_msg* message, Sink sink) {
  const auto callback = [](nl_msg* answer, void* to) -> int {
    (*static_cast<Sink*>(to))(*nlmsg_hdr(answer));
    return NL_OK;
  };
  if (nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, callback, &sink) < 0 ||
      nl_send_auto(socket, message) < 0 || nl_recvmsgs_default(socket) < 0) {
    return fail(EIO, "RDMA netlink: the kernel did not answer");
  }
  return {};
}

Message make_message(unsigned command, int flags) {
  return Message(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags));
}

Expected<std::vector<NetlinkDevice>> list_devices(nl_sock* socket) {
  std::vector<NetlinkDevice> devices;
  const Message message = make_message(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
  if (!message) return fail(ENOMEM, "RDMA netlink: no memory for a message");
  const auto done = exchange(socket, message.get(), [&devices](const nlmsghdr& answer) {
    if (auto device = parse_netlink_device(answer)) devices.push_back(*std::move(device));
  });
  if (!done) return std::unexpected(done.error());
  return devices;
}

// Nothing for a device without a uverbs node.
std::optional<NetlinkUverbs> uverbs_of(nl_sock* socket, std::uint32_t device_index) {
  std::optional<NetlinkUverbs> uverbs;
  const Message message = make_message(RDMA_NLDEV_CMD_GET_CHARDEV, 0);
  if (!message || nla_put_u32(message.get(), RDMA_NLDEV_ATTR_DEV_INDEX, device_index) < 0 ||
      nla_put_string(message.get(), RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs") < 0) {
    return std::nullopt;
  }
  const auto done =
      exchange(socket, message.get(), [&uverbs](const nlmsghdr& answer) { uverbs = parse_netlink_uverbs(answer); });
  return done ? uverbs : std::nullopt;
}

}  // namespace

std::optional<NetlinkDevice> parse_netlink_device(const nlmsghdr& message) {
  const auto attributes = parse(message, RDMA_NLDEV_CMD_GET);
  if (!attributes) return std::nullopt;
  const auto index = number((*attributes)[RDMA_NLDEV_ATTR_DEV_INDEX]);
  auto name = text((*attributes)[RDMA_NLDEV_ATTR_DEV_NAME]);
  if (!index || !name) return std::nullopt;
  return NetlinkDevice{static_cast<std::uint32_t>(*index), *std::move(name)};
}

std::optional<NetlinkUverbs> parse_netlink_uverbs(const nlmsghdr& message) {
  const auto attributes = parse(message, RDMA_NLDEV_CMD_GET_CHARDEV);
  if (!attributes) return std::nullopt;
  auto node = text((*attributes)[RDMA_NLDEV_ATTR_CHARDEV_NAME]);
  const auto abi = number((*attributes)[RDMA_NLDEV_ATTR_CHARDEV_ABI]);
  if (!node || !abi) return std::nullopt;
  NetlinkUverbs uverbs{*std::move(node), *abi, std::nullopt};
  if (const auto id = number((*attributes)[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID])) {
    uverbs.driver_id = static_cast<std::uint32_t>(*id);
  }
  return uverbs;
}

Expected<std::vector<NetlinkNode>> list_netlink_nodes() {
  const auto socket = connect();
  if (!socket) return std::unexpected(socket.error());
  auto devices = list_devices(socket->get());
  if (!devices) return std::unexpected(devices.error());
  std::vector<NetlinkNode> nodes;
  for (NetlinkDevice& device : *devices) {
    auto uverbs = uverbs_of(socket->get(), device.index);
    if (uverbs) nodes.push_back({std::move(device), *std::move(uverbs)});
  }
  return nodes;
}

bool kernel_copies_on_fork() {
  const auto socket = connect();
  const Message message = make_message(RDMA_NLDEV_CMD_SYS_GET, 0);
  if (!socket || !message) return false;
  bool copies = false;
  const auto done = exchange(socket->get(), message.get(), [&copies](const nlmsghdr& answer) {
    const auto attributes = parse(answer, RDMA_NLDEV_CMD_SYS_GET);
    const nlattr* attribute = attributes ? (*attributes)[RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK] : nullptr;
    copies = attribute != nullptr && nla_len(attribute) == 1 && nla_get_u8(attribute) == 1;
  });
  return done && copies;
}

}  // namespace umlx5::uapi
