#include "tools/softhca/doorbell_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace softhca {
namespace {

constexpr std::size_t kPageBytes = 4096;

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

}  // namespace

DoorbellWatch::DoorbellWatch(std::span<std::byte> memory) : memory_(memory) {
  fd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd_ < 0) {
    return;
  }
  // Pages that do not exist yet cannot be protected: an addition of nothing makes them.
  for (std::size_t offset = 0; offset < memory_.size(); offset += kPageBytes) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_.data() + offset)).fetch_add(0);
  }
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  uffdio_register range{};
  range.range = {.start = reinterpret_cast<std::uint64_t>(memory_.data()), .len = memory_.size()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(fd_, UFFDIO_API, &api) != 0 || ::ioctl(fd_, UFFDIO_REGISTER, &range) != 0 ||
      (range.ioctls & std::uint64_t{1} << _UFFDIO_WRITEPROTECT) == 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

DoorbellWatch::~DoorbellWatch() {
  if (fd_ >= 0) {
    ::close(fd_);  // also ends all protection
  }
}

void DoorbellWatch::protect(bool on) {
  uffdio_writeprotect request{};
  request.range = {.start = reinterpret_cast<std::uint64_t>(memory_.data()), .len = memory_.size()};
  request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  ::ioctl(fd_, UFFDIO_WRITEPROTECT, &request);
}

void DoorbellWatch::arm() {
  if (available()) {
    protect(true);
  }
}

void DoorbellWatch::disarm() {
  if (!available()) {
    return;
  }
  std::array<uffd_msg, 16> messages{};
  while (::read(fd_, messages.data(), sizeof messages) > 0) {
  }
  protect(false);  // and wakes whoever waits
}

}  // namespace softhca
