#include "tools/softhca/clock_page.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace softhca {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kServePeriodNs = 50'000;

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

}  // namespace

ClockPage::ClockPage() : page_(kPageBytes) {
  fd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  uffdio_api api{.api = UFFD_API, .features = UFFD_FEATURE_MISSING_SHMEM, .ioctls = 0};
  if (fd_ >= 0 && ::ioctl(fd_, UFFDIO_API, &api) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

ClockPage::~ClockPage() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

std::expected<std::byte*, int> ClockPage::map() {
  const auto reader = page_.map(0, kPageBytes, PROT_READ);
  if (reader && fd_ >= 0) {
    uffdio_register range{};
    range.range = {.start = reinterpret_cast<std::uint64_t>(*reader), .len = kPageBytes};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    ::ioctl(fd_, UFFDIO_REGISTER, &range);
  }
  return reader;
}

void ClockPage::tick(std::uint64_t now_ns) {
  if (present_) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(page_.bytes().data()))
        .store(htobe64(now_ns), std::memory_order_release);
  }
}

void ClockPage::serve(std::uint64_t now_ns) {
  if (fd_ < 0 || present_ || now_ns - served_ns_ < kServePeriodNs) {
    return;
  }
  served_ns_ = now_ns;
  uffd_msg waiter{};
  while (::read(fd_, &waiter, sizeof waiter) > 0) {
    present_ = true;
    tick(now_ns);
    uffdio_range page{.start = waiter.arg.pagefault.address & ~(kPageBytes - 1), .len = kPageBytes};
    ::ioctl(fd_, UFFDIO_WAKE, &page);
  }
}

void ClockPage::rest() {
  if (fd_ >= 0 && present_) {
    page_.drop();
    present_ = false;
    served_ns_ = 0;
  }
}

}  // namespace softhca
