#include "tools/softhca/wire/group_sockets.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

namespace softhca::wire {
namespace {

constexpr std::size_t kReadyAtOnce = 16;

}  // namespace

GroupSockets::GroupSockets() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

GroupSockets::~GroupSockets() {
  if (epoll_ >= 0) {
    ::close(epoll_);
  }
}

umlx5::Expected<void> GroupSockets::join(Ipv4 group, Ipv4 local) {
  if (sockets_.contains(group.value)) {
    return {};
  }
  auto socket = UdpSocket::open_group(group, local);
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  epoll_event interest{.events = EPOLLIN, .data = {.ptr = socket->get()}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, (*socket)->fd(), &interest) != 0) {
    return umlx5::fail(errno, "multicast group " + to_string(group) + ": its socket cannot be watched");
  }
  sockets_.emplace(group.value, std::move(*socket));
  return {};
}

void GroupSockets::leave(Ipv4 group) {
  if (const auto found = sockets_.find(group.value); found != sockets_.end()) {
    std::erase(ready_, found->second.get());
    sockets_.erase(found);
  }
}

bool GroupSockets::receive() {
  ready_.clear();
  if (sockets_.empty()) {
    return false;
  }
  std::array<epoll_event, kReadyAtOnce> events;
  const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
    auto* const socket = static_cast<UdpSocket*>(event.data.ptr);
    if (socket->receive()) {
      ready_.push_back(socket);
    }
  }
  return !ready_.empty();
}

bool GroupSockets::next(IncomingDatagram& out, Ipv4& group) {
  while (!ready_.empty()) {
    if (ready_.back()->next(out)) {
      group = ready_.back()->address();
      return true;
    }
    ready_.pop_back();
  }
  return false;
}

bool GroupSockets::has_next() const {
  return std::ranges::any_of(ready_, [](const UdpSocket* socket) { return socket->has_next(); });
}

}  // namespace softhca::wire
