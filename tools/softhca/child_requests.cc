#include "tools/softhca/child_requests.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace softhca {
namespace {

// A message with a descriptor beside it: a request's is where the answer goes.
struct Message {
  explicit Message(ChildRequest& request) : data{&request, sizeof request} {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }

  void attach(int fd) {
    cmsghdr* const first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(first), &fd, sizeof fd);
  }

  int attached() {
    const cmsghdr* const first = CMSG_FIRSTHDR(&header);
    int fd = -1;
    if (first != nullptr && first->cmsg_type == SCM_RIGHTS && first->cmsg_len == CMSG_LEN(sizeof fd)) {
      std::memcpy(&fd, CMSG_DATA(first), sizeof fd);
    }
    return fd;
  }

  iovec data;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

bool socket_pair(std::array<int, 2>& fds) {
  return ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0;
}

}  // namespace

umlx5::Expected<std::unique_ptr<ChildRequests>> ChildRequests::start(
    std::function<ChildAnswer(const ChildRequest&)> serve) {
  std::array<int, 2> fds{};
  if (!socket_pair(fds)) {
    return umlx5::fail(errno, "soft device: no sockets for what its children ask");
  }
  const int process_fd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  std::unique_ptr<ChildRequests> made(new ChildRequests(std::move(serve), fds[0], fds[1], process_fd));
  made->thread_ = std::thread([raw = made.get()] { raw->run(); });
  return made;
}

ChildRequests::ChildRequests(std::function<ChildAnswer(const ChildRequest&)> serve, int server_fd, int client_fd,
                             int process_fd)
    : serve_(std::move(serve)),
      server_fd_(server_fd),
      client_fd_(client_fd),
      process_fd_(process_fd),
      owner_(::getpid()) {}

ChildRequests::~ChildRequests() {
  if (::getpid() == owner_) {
    ::shutdown(server_fd_, SHUT_RDWR);
    thread_.join();
  } else {
    thread_.detach();  // it exists in the parent only
  }
  ::close(server_fd_);
  ::close(client_fd_);
  if (process_fd_ >= 0) {
    ::close(process_fd_);
  }
}

void ChildRequests::run() const {
  for (;;) {
    ChildRequest request;
    Message message(request);
    const ssize_t got = ::recvmsg(server_fd_, &message.header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return;
    }
    const int reply_fd = message.attached();
    if (reply_fd < 0) {
      continue;
    }
    const ChildAnswer answer =
        got == static_cast<ssize_t>(sizeof request) ? serve_(request) : ChildAnswer{.error = EIO, .value = 0};
    ::send(reply_fd, &answer, sizeof answer, MSG_NOSIGNAL);
    ::close(reply_fd);
  }
}

ChildAnswer ChildRequests::ask(ChildRequest request) const {
  request.pid = ::getpid();
  ChildAnswer answer{.error = EIO, .value = 0};
  std::array<int, 2> fds{};
  if (!socket_pair(fds)) {
    return {.error = errno, .value = 0};
  }
  Message message(request);
  message.attach(fds[1]);
  const bool sent = ::sendmsg(client_fd_, &message.header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof request);
  ::close(fds[1]);  // the only other end is the one on its way
  if (sent) {
    const int look_again_ms = process_fd_ >= 0 ? -1 : 100;
    std::array<pollfd, 2> waits{pollfd{fds[0], POLLIN, 0}, pollfd{process_fd_, POLLIN, 0}};
    for (int ready = 0; ready <= 0;) {
      ready = ::poll(waits.data(), waits.size(), look_again_ms);
      if ((ready == 0 && ::kill(owner_, 0) != 0) || (ready < 0 && errno != EINTR)) {
        break;
      }
    }
    ChildAnswer got;
    if (::recv(fds[0], &got, sizeof got, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof got)) {
      answer = got;
    }
  }
  ::close(fds[0]);
  return answer;
}

}  // namespace softhca
