// The multicast groups that a port has joined: a socket each, since one that is bound to the port's address hears of no
// group.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "tools/softhca/wire/ip.h"
#include "tools/softhca/wire/udp_socket.h"
#include "uapi/error.h"

namespace softhca::wire {

// Not thread-safe, but for the descriptor.
class GroupSockets {
 public:
  GroupSockets();
  ~GroupSockets();
  GroupSockets(const GroupSockets&) = delete;
  GroupSockets& operator=(const GroupSockets&) = delete;

  // Hears `group` on the interface that has the address `local`. A group that is joined already stays so. Errors: what
  // the kernel gives, in words.
  umlx5::Expected<void> join(Ipv4 group, Ipv4 local);
  void leave(Ipv4 group);

  // Readable while a datagram waits in one of the sockets.
  int fd() const { return epoll_; }

  // As those of UdpSocket, over all groups.
  bool receive();
  bool next(IncomingDatagram& out, Ipv4& group);
  bool has_next() const;

 private:
  int epoll_;
  std::map<std::uint32_t, std::unique_ptr<UdpSocket>> sockets_;
  std::vector<UdpSocket*> ready_;  // of the last receive()
};

}  // namespace softhca::wire
