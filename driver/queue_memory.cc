#include "driver/queue_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace umlx5 {

Expected<QueueMemory> QueueMemory::allocate(std::size_t bytes, const char* what) {
  QueueMemory memory;
  if (bytes == 0) {
    return memory;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes + page - 1) / page * page;
  void* const data = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return fail(errno, fmt::format("{}: no memory for a buffer of {} bytes", what, whole));
  }
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_bytes_ = whole;
  if (::madvise(data, whole, MADV_DONTFORK) != 0) {
    return fail(errno, fmt::format("{}: a buffer of {} bytes cannot be kept from forked children", what, whole));
  }
  return memory;
}

QueueMemory::~QueueMemory() {
  if (data_ != nullptr) {
    ::munmap(data_, size_bytes_);
  }
}

}  // namespace umlx5
