#include "tools/softhca/doorbell_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace softhca {
namespace {

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
constexpr std::uint64_t kProtectsSharedMemory = 1 << 12;  // UFFD_FEATURE_WP_HUGETLBFS_SHMEM, Linux 5.19

int open_userfault() {
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  uffdio_api api{.api = UFFD_API, .features = kProtectsSharedMemory, .ioctls = 0};
  if (fd >= 0 && ::ioctl(fd, UFFDIO_API, &api) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// False if there is no such mapping any more.
bool protect_range(int fd, std::span<std::byte> range, bool on) {
  uffdio_writeprotect request{};
  request.range = {.start = reinterpret_cast<std::uint64_t>(range.data()), .len = range.size()};
  request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  int result = 0;
  do {
    result = ::ioctl(fd, UFFDIO_WRITEPROTECT, &request);
  } while (result != 0 && errno == EAGAIN);  // mappings are being changed
  return result == 0 || errno != ENOENT;
}

}  // namespace

DoorbellWatch::DoorbellWatch() : fd_(open_userfault()) {}

DoorbellWatch::~DoorbellWatch() {
  if (fd_ >= 0) {
    ::close(fd_);  // also ends all protection
  }
}

bool DoorbellWatch::add(std::span<std::byte> memory) {
  uffdio_register range{};
  range.range = {.start = reinterpret_cast<std::uint64_t>(memory.data()), .len = memory.size()};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  const std::lock_guard lock(mutex_);
  if (fd_ < 0 || ::ioctl(fd_, UFFDIO_REGISTER, &range) != 0 ||
      (range.ioctls & std::uint64_t{1} << _UFFDIO_WRITEPROTECT) == 0) {
    return false;
  }
  // An earlier mapping may have had the same place.
  std::erase_if(ranges_, [&](std::span<std::byte> other) { return other.data() == memory.data(); });
  ranges_.push_back(memory);
  return true;
}

void DoorbellWatch::protect(bool on) {
  std::erase_if(ranges_, [&](std::span<std::byte> range) { return !protect_range(fd_, range, on); });
}

void DoorbellWatch::arm() {
  const std::lock_guard lock(mutex_);
  protect(true);
}

void DoorbellWatch::disarm() {
  if (!available()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  std::array<uffd_msg, 16> messages{};
  while (::read(fd_, messages.data(), sizeof messages) > 0) {
  }
  protect(false);  // and wakes whoever waits
}

}  // namespace softhca
