#include "tools/softhca/wire/udp_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace softhca::wire {
namespace {

constexpr int kSocketBufferBytes = 32 << 20;  // asked for; without privilege the kernel's limit applies
constexpr std::size_t kSendMessages = 64;     // per system call
constexpr std::size_t kMaxSegments = 64;      // UDP_MAX_SEGMENTS of the oldest kernels with segmentation
constexpr std::size_t kMaxRunBytes = 65'000;  // below the largest UDP datagram
constexpr std::size_t kReceiveMessages = 8;   // per system call
constexpr std::size_t kReceiveBytes = 65'536;
constexpr int kMaxSendAttempts = 8;
constexpr int kHopLimit = 64;
constexpr timespec kSendRetryDelay{.tv_sec = 0, .tv_nsec = 250'000};

constexpr std::size_t kSendControlBytes = CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(int));
constexpr std::size_t kReceiveControlBytes = 3 * CMSG_SPACE(sizeof(int));

sockaddr_in socket_address(Ipv4 address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(kRoceV2Port);
  result.sin_addr.s_addr = htonl(address.value);
  return result;
}

bool set_option(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

void grow_buffer(int fd, int forced_option, int option) {
  if (!set_option(fd, SOL_SOCKET, forced_option, kSocketBufferBytes)) {
    set_option(fd, SOL_SOCKET, option, kSocketBufferBytes);
  }
}

template <typename T>
void add_control(msghdr& header, int level, int type, T value) {
  auto* const control = reinterpret_cast<cmsghdr*>(static_cast<std::byte*>(header.msg_control) + header.msg_controllen);
  control->cmsg_level = level;
  control->cmsg_type = type;
  control->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(control), &value, sizeof value);
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

// How many of the first datagrams can go down as one buffer: adjacent in memory, to one place, all of the size of the
// first but the last, which may be shorter.
std::size_t run_length(std::span<const OutgoingDatagram> datagrams) {
  const OutgoingDatagram& first = datagrams.front();
  std::size_t count = 1;
  std::size_t total_bytes = first.data.size();
  while (count < datagrams.size() && count < kMaxSegments) {
    const OutgoingDatagram& next = datagrams[count];
    if (next.destination != first.destination || next.traffic_class != first.traffic_class ||
        next.data.data() != first.data.data() + total_bytes || next.data.size() > first.data.size() ||
        total_bytes + next.data.size() > kMaxRunBytes) {
      break;
    }
    ++count;
    total_bytes += next.data.size();
    if (next.data.size() < first.data.size()) {
      break;
    }
  }
  return count;
}

}  // namespace

struct UdpSocket::SendBatch {
  struct Message {
    sockaddr_in address;
    iovec data;
    std::size_t datagrams;
    alignas(cmsghdr) std::array<std::byte, kSendControlBytes> control;
  };

  void add(std::span<const OutgoingDatagram> run) {
    Message& message = messages[count];
    const OutgoingDatagram& first = run.front();
    std::size_t total_bytes = 0;
    for (const OutgoingDatagram& datagram : run) {
      total_bytes += datagram.data.size();
    }
    message.address = socket_address(first.destination);
    message.data = {const_cast<std::byte*>(first.data.data()), total_bytes};
    message.datagrams = run.size();
    msghdr& header = headers[count].msg_hdr;
    header = {};
    header.msg_name = &message.address;
    header.msg_namelen = sizeof message.address;
    header.msg_iov = &message.data;
    header.msg_iovlen = 1;
    header.msg_control = message.control.data();
    if (run.size() > 1) {
      add_control(header, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(first.data.size()));
    }
    if (first.traffic_class != 0) {
      add_control(header, IPPROTO_IP, IP_TOS, int{first.traffic_class});
    }
    if (header.msg_controllen == 0) {
      header.msg_control = nullptr;
    }
    ++count;
  }

  std::size_t count = 0;
  std::array<mmsghdr, kSendMessages> headers;
  std::array<Message, kSendMessages> messages;
};

struct UdpSocket::ReceiveBatch {
  struct Message {
    sockaddr_in address;
    iovec data;
    alignas(cmsghdr) std::array<std::byte, kReceiveControlBytes> control;
  };

  ReceiveBatch() : buffers(std::make_unique_for_overwrite<std::byte[]>(kReceiveMessages * kReceiveBytes)) {}

  // The kernel overwrites lengths; gives them back their full values.
  void prepare(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      Message& message = messages[i];
      message.data = {buffers.get() + i * kReceiveBytes, kReceiveBytes};
      msghdr& header = headers[i].msg_hdr;
      header.msg_name = &message.address;
      header.msg_namelen = sizeof message.address;
      header.msg_iov = &message.data;
      header.msg_iovlen = 1;
      header.msg_control = message.control.data();
      header.msg_controllen = message.control.size();
      header.msg_flags = 0;
    }
  }

  // Begins with message `index`: what its datagrams have in common, and their size.
  void open_message() {
    msghdr& header = headers[index].msg_hdr;
    const sockaddr_in& address = messages[index].address;
    rest = {buffers.get() + index * kReceiveBytes, headers[index].msg_len};
    segment_bytes = rest.size();
    common = {};
    common.source.value = ntohl(address.sin_addr.s_addr);
    common.source_port = ntohs(address.sin_port);
    for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
      int value = 0;
      if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO) {
        std::memcpy(&value, CMSG_DATA(control), sizeof value);
        segment_bytes = value > 0 ? static_cast<std::size_t>(value) : rest.size();
      } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TTL) {
        std::memcpy(&value, CMSG_DATA(control), sizeof value);
        common.hop_limit = static_cast<std::uint8_t>(value);
      } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_TOS) {
        std::memcpy(&common.traffic_class, CMSG_DATA(control), sizeof common.traffic_class);
      }
    }
  }

  std::unique_ptr<std::byte[]> buffers;
  std::size_t asked = 1;   // messages asked for at once; grows while the kernel fills them all
  std::size_t filled = 0;  // messages the kernel filled
  std::size_t index = 0;   // message whose datagrams are being given out
  std::span<const std::byte> rest;
  std::size_t segment_bytes = 0;
  IncomingDatagram common;
  std::array<mmsghdr, kReceiveMessages> headers;
  std::array<Message, kReceiveMessages> messages;
};

UdpSocket::UdpSocket(int fd, Ipv4 address)
    : fd_(fd), address_(address), send_(std::make_unique<SendBatch>()), receive_(std::make_unique<ReceiveBatch>()) {}

UdpSocket::~UdpSocket() { close(fd_); }

umlx5::Expected<std::unique_ptr<UdpSocket>> UdpSocket::create(Ipv4 address) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return umlx5::fail(errno, "UDP socket: cannot be created");
  }
  return std::unique_ptr<UdpSocket>(new UdpSocket(fd, address));
}

void UdpSocket::ask_for_headers() {
  grow_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
  set_option(fd_, IPPROTO_IP, IP_RECVTOS, 1);
  set_option(fd_, IPPROTO_IP, IP_RECVTTL, 1);
}

umlx5::Expected<std::unique_ptr<UdpSocket>> UdpSocket::open(Ipv4 address) {
  auto result = create(address);
  if (!result) {
    return result;
  }
  const int fd = (*result)->fd_;
  const sockaddr_in name = socket_address(address);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    const int error = errno;
    return umlx5::fail(error, fmt::format("UDP socket: {}:{} {}", to_string(address), kRoceV2Port,
                                          error == EADDRINUSE      ? "is taken"
                                          : error == EADDRNOTAVAIL ? "is not an address of this machine"
                                                                   : "cannot be bound"));
  }
  if (!set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)) {
    return umlx5::fail(errno, "UDP socket: fragmentation cannot be forbidden");
  }
  (*result)->ask_for_headers();
  grow_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
  set_option(fd, SOL_UDP, UDP_GRO, 1);
  // What goes to a group leaves by the interface of the address, and lives as long as what goes to one machine.
  setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &name.sin_addr, sizeof name.sin_addr);
  set_option(fd, IPPROTO_IP, IP_MULTICAST_TTL, kHopLimit);
  (*result)->segmentation_ = address.is_loopback() && set_option(fd, SOL_UDP, UDP_SEGMENT, 0);
  return result;
}

umlx5::Expected<std::unique_ptr<UdpSocket>> UdpSocket::open_group(Ipv4 group, Ipv4 local) {
  auto result = create(group);
  if (!result) {
    return result;
  }
  const int fd = (*result)->fd_;
  const sockaddr_in name = socket_address(group);
  const ip_mreqn membership{
      .imr_multiaddr = name.sin_addr, .imr_address = socket_address(local).sin_addr, .imr_ifindex = 0};
  if (!set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) ||
      bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership) != 0) {
    return umlx5::fail(errno,
                       fmt::format("UDP socket: {} cannot join the group {}", to_string(local), to_string(group)));
  }
  set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);  // not those that others have joined on other interfaces
  (*result)->ask_for_headers();
  return result;
}

std::size_t UdpSocket::send(std::span<const OutgoingDatagram> datagrams) {
  std::size_t refused = 0;
  while (!datagrams.empty()) {
    const std::size_t count = segmentation_ && datagrams.front().destination.is_loopback() ? run_length(datagrams) : 1;
    send_->add(datagrams.first(count));
    datagrams = datagrams.subspan(count);
    if (send_->count == kSendMessages || datagrams.empty()) {
      refused += transmit();
    }
  }
  return refused;
}

std::size_t UdpSocket::transmit() {
  std::size_t refused = 0;
  std::size_t done = 0;
  int attempts = 0;
  while (done < send_->count) {
    const int sent = sendmmsg(fd_, send_->headers.data() + done, static_cast<unsigned>(send_->count - done), 0);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
      attempts = 0;
      continue;
    }
    const bool transient = errno == EAGAIN || errno == ENOBUFS || errno == EINTR;
    if (transient && ++attempts < kMaxSendAttempts) {
      nanosleep(&kSendRetryDelay, nullptr);
      continue;
    }
    refused += send_->messages[done].datagrams;
    ++done;
    attempts = 0;
  }
  send_->count = 0;
  return refused;
}

bool UdpSocket::receive() {
  ReceiveBatch& batch = *receive_;
  batch.prepare(batch.asked);
  const int count = recvmmsg(fd_, batch.headers.data(), static_cast<unsigned>(batch.asked), MSG_DONTWAIT, nullptr);
  batch.filled = count > 0 ? static_cast<std::size_t>(count) : 0;
  batch.index = 0;
  batch.rest = {};
  // A lone ping must not pay for a second look at an empty queue.
  batch.asked = batch.filled == batch.asked ? std::min(batch.asked * 2, kReceiveMessages) : 1;
  if (batch.filled != 0) {
    batch.open_message();
  }
  return batch.filled != 0;
}

bool UdpSocket::has_next() const { return !receive_->rest.empty() || receive_->index + 1 < receive_->filled; }

bool UdpSocket::next(IncomingDatagram& out) {
  ReceiveBatch& batch = *receive_;
  while (batch.rest.empty()) {
    if (batch.index + 1 >= batch.filled) {
      return false;
    }
    ++batch.index;
    batch.open_message();
  }
  const std::size_t count = std::min(batch.segment_bytes, batch.rest.size());
  out = batch.common;
  out.data = batch.rest.first(count);
  batch.rest = batch.rest.subspan(count);
  return true;
}

}  // namespace softhca::wire
