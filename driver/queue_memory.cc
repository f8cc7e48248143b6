#include "driver/queue_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <optional>
#include <utility>

namespace umlx5 {

const ForkGuard kKeepOutAlways{
    .keep_out = [](void* memory, std::size_t bytes) { return ::madvise(memory, bytes, MADV_DONTFORK); },
    .let_in = [](void* memory, std::size_t bytes) { return ::madvise(memory, bytes, MADV_DOFORK); }};

std::size_t system_page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Expected<QueueMemory> QueueMemory::allocate(const ForkGuard& guard, std::size_t bytes, const char* what) {
  QueueMemory memory;
  if (bytes == 0) {
    return memory;
  }
  const std::size_t page = system_page_bytes();
  const std::size_t whole = (bytes + page - 1) / page * page;
  void* const data = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return fail(errno, fmt::format("{}: no memory for a buffer of {} bytes", what, whole));
  }
  if (guard.keep_out(data, whole) != 0) {
    const int error = errno;
    ::munmap(data, whole);
    return fail(error, fmt::format("{}: a buffer of {} bytes cannot be kept from forked children", what, whole));
  }
  memory.data_ = static_cast<std::byte*>(data);
  memory.size_bytes_ = whole;
  memory.guard_ = guard;
  return memory;
}

Expected<QueueMemory> QueueMemory::allocate(const ForkGuard& guard, Allocator* allocator, MemoryUse use,
                                            std::size_t bytes, std::size_t alignment_bytes, const char* what) {
  if (allocator == nullptr || bytes == 0) {
    return allocate(guard, bytes, what);
  }
  const std::size_t whole = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  const std::optional<void*> given = allocator->allocate(use, whole, alignment_bytes);
  if (!given) {
    return allocate(guard, bytes, what);
  }
  if (*given == nullptr) {
    return fail(ENOMEM, fmt::format("{}: the program's allocator gave no memory for {} bytes", what, whole));
  }
  QueueMemory memory;
  memory.data_ = static_cast<std::byte*>(*given);
  memory.size_bytes_ = whole;
  memory.allocator_ = allocator;
  memory.use_ = use;
  return memory;
}

QueueMemory::~QueueMemory() {
  if (data_ == nullptr) {
    return;
  }
  if (allocator_ != nullptr) {
    allocator_->release(use_, data_);
  } else {
    guard_.let_in(data_, size_bytes_);
    ::munmap(data_, size_bytes_);
  }
}

Expected<DoorbellRecord> DoorbellRecord::allocate(doorbell::RecordPool& pool, Allocator* allocator, const char* what) {
  DoorbellRecord record;
  constexpr std::size_t kBytes = sizeof(doorbell::RecordMemory);
  if (allocator != nullptr) {
    if (const auto given = allocator->allocate(MemoryUse::kDoorbellRecord, kBytes, kBytes)) {
      if (*given == nullptr) {
        return fail(ENOMEM, fmt::format("{}: the program's allocator gave no memory for a doorbell record", what));
      }
      record.memory_ = new (*given) doorbell::RecordMemory{};
      record.allocator_ = allocator;
      return record;
    }
  }
  auto pooled = pool.allocate();
  if (!pooled) {
    return fail(ENOMEM, fmt::format("{}: no memory for a doorbell record", what));
  }
  record.pooled_ = std::move(*pooled);
  record.memory_ = record.pooled_.memory();
  return record;
}

DoorbellRecord::~DoorbellRecord() {
  if (allocator_ != nullptr) {
    allocator_->release(MemoryUse::kDoorbellRecord, memory_);
  }
}

}  // namespace umlx5
