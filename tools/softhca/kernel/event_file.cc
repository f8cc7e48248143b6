#include "tools/softhca/kernel/event_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "tools/softhca/kernel/user_memory.h"

namespace softhca::kernel {
namespace {

// More than the queue of a socket with the send buffer below can hold.
constexpr std::size_t kMaxSent = 1024;
constexpr int kSendBufferBytes = 64 * 1024;

}  // namespace

std::expected<std::shared_ptr<EventFile>, int> EventFile::open(std::uint16_t object_type, std::size_t record_bytes) {
  if (is_request_of_another_process()) {
    return std::unexpected(EIO);  // which could not read it
  }
  // A packet socket keeps records whole, and a closed reader is an error code instead of a signal.
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return std::unexpected(errno);
  }
  ::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  return std::shared_ptr<EventFile>(new EventFile(fds[0], fds[1], object_type, record_bytes));
}

EventFile::EventFile(int own_fd, int user_fd, std::uint16_t object_type, std::size_t record_bytes)
    : own_fd_(own_fd), user_fd_(user_fd), object_type_(object_type), record_bytes_(record_bytes) {
  struct stat status {};
  if (::fstat(user_fd_, &status) == 0) {
    user_inode_ = status.st_ino;
  }
}

EventFile::~EventFile() { ::close(own_fd_); }

bool EventFile::still_open() const {
  struct stat status {};
  return ::fstat(user_fd_, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == user_inode_;
}

bool EventFile::push(std::uint64_t tag, std::span<const std::byte> record) {
  if (closed_) {
    return false;
  }
  Record& last = waiting_.emplace_back(Record{.tag = tag, .bytes = {}});
  std::copy_n(record.begin(), std::min(record.size(), record_bytes_), last.bytes.begin());
  flush();
  return !closed_;
}

bool EventFile::flush() {
  while (!waiting_.empty() && !closed_) {
    const Record& record = waiting_.front();
    if (::send(own_fd_, record.bytes.data(), record_bytes_, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
      sent_.push_back(record);
      waiting_.pop_front();
      if (sent_.size() > kMaxSent) {
        sent_.pop_front();
      }
    } else if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      closed_ = true;
      waiting_.clear();
    } else if (errno != EINTR) {
      break;
    }
  }
  return !waiting_.empty();
}

std::uint32_t EventFile::take_back(std::uint64_t tag) {
  auto removed = static_cast<std::uint32_t>(std::erase_if(waiting_, [&](const Record& r) { return r.tag == tag; }));
  if (!still_open()) {
    return removed;
  }
  // What can still be received at the program's end are the newest records sent; all older ones have been read.
  std::size_t unread = 0;
  std::array<std::byte, kMostRecordBytes> bytes{};
  while (unread < sent_.size() && ::recv(user_fd_, bytes.data(), bytes.size(), MSG_DONTWAIT) >= 0) {
    ++unread;
  }
  sent_.erase(sent_.begin(), sent_.end() - static_cast<std::ptrdiff_t>(unread));
  removed += static_cast<std::uint32_t>(std::erase_if(sent_, [&](const Record& r) { return r.tag == tag; }));
  waiting_.insert(waiting_.begin(), sent_.begin(), sent_.end());
  sent_.clear();
  flush();
  return removed;
}

void EventFile::close_user_fd() {
  if (still_open()) {
    ::close(user_fd_);
  }
}

}  // namespace softhca::kernel
