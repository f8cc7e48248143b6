#include "tools/softhca/clock_page.h"

#include <endian.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

namespace softhca {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::uint64_t kServePeriodNs = 50'000;

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

}  // namespace

ClockPage::ClockPage() {
  void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return;
  }
  page_ = static_cast<std::byte*>(memory);
  std::memset(page_, 0, kPageBytes);
  fd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd_ < 0) {
    return;
  }
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  uffdio_register range{};
  range.range = {.start = reinterpret_cast<std::uint64_t>(page_), .len = kPageBytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(fd_, UFFDIO_API, &api) != 0 || ::ioctl(fd_, UFFDIO_REGISTER, &range) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

ClockPage::~ClockPage() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  if (page_ != nullptr) {
    ::munmap(page_, kPageBytes);
  }
}

std::span<std::byte> ClockPage::memory() const {
  return page_ == nullptr ? std::span<std::byte>{} : std::span(page_, kPageBytes);
}

void ClockPage::tick(std::uint64_t now_ns) {
  if (present_ && page_ != nullptr) {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(page_)).store(htobe64(now_ns), std::memory_order_release);
  }
}

void ClockPage::serve(std::uint64_t now_ns) {
  if (fd_ < 0 || present_ || now_ns - served_ns_ < kServePeriodNs) {
    return;
  }
  served_ns_ = now_ns;
  std::array<uffd_msg, 16> messages{};
  if (::read(fd_, messages.data(), sizeof messages) > 0) {
    put(now_ns);
  }
}

void ClockPage::put(std::uint64_t now_ns) {
  alignas(kPageBytes) std::array<std::byte, kPageBytes> image{};
  const std::uint64_t value = htobe64(now_ns);
  std::memcpy(image.data(), &value, sizeof value);
  uffdio_copy request{};
  request.dst = reinterpret_cast<std::uint64_t>(page_);
  request.src = reinterpret_cast<std::uint64_t>(image.data());
  request.len = kPageBytes;
  ::ioctl(fd_, UFFDIO_COPY, &request);  // and wakes whoever waits
  present_ = true;
}

void ClockPage::rest() {
  if (fd_ >= 0 && present_) {
    ::madvise(page_, kPageBytes, MADV_DONTNEED);
    present_ = false;
    served_ns_ = 0;
  }
}

}  // namespace softhca
