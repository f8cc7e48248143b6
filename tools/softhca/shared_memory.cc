#include "tools/softhca/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

namespace softhca {
namespace {

constexpr std::size_t kPageBytes = 4096;

void* map_file(int fd, std::uint64_t offset_bytes, std::size_t bytes, int protection) {
  return ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset_bytes));
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : fd_(::memfd_create("softhca", MFD_CLOEXEC)), bytes_(bytes) {
  void* const memory = fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0
                           ? map_file(fd_, 0, bytes, PROT_READ | PROT_WRITE)
                           : MAP_FAILED;
  if (memory == MAP_FAILED) {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    throw std::bad_alloc();
  }
  memory_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() {
  ::munmap(memory_, bytes_);
  ::close(fd_);
}

std::expected<std::byte*, int> SharedMemory::map(std::uint64_t offset_bytes, std::size_t bytes, int protection) const {
  if (bytes == 0 || bytes % kPageBytes != 0 || offset_bytes % kPageBytes != 0 || offset_bytes > bytes_ ||
      bytes > bytes_ - offset_bytes) {
    return std::unexpected(EINVAL);
  }
  void* const memory = map_file(fd_, offset_bytes, bytes, protection);
  return memory == MAP_FAILED ? std::expected<std::byte*, int>(std::unexpected(errno))
                              : static_cast<std::byte*>(memory);
}

void SharedMemory::drop() const {
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_));
}

}  // namespace softhca
