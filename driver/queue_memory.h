// Memory of a queue, which the device reads and writes.
#pragma once

#include <cstddef>
#include <utility>

#include "doorbell/record_pool.h"
#include "driver/allocator.h"
#include "driver/fork_guard.h"
#include "uapi/error.h"

namespace umlx5 {

std::size_t system_page_bytes();

// Memory of its own, or of an allocator.
//
// Its own: whole pages, zeroed, and kept out of forked children as the context's ForkGuard does it. Move-only; unmaps
// when it goes. Not for use by two threads at once.
class QueueMemory {
 public:
  QueueMemory() = default;
  QueueMemory(QueueMemory&& other) noexcept { swap(other); }
  QueueMemory& operator=(QueueMemory&& other) noexcept {
    QueueMemory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~QueueMemory();

  // At least `bytes`; no memory at all for 0. Errors: ENOMEM, with `what` for whom it was.
  static Expected<QueueMemory> allocate(const ForkGuard& guard, std::size_t bytes, const char* what);
  // As allocate(), from `allocator`, if there is one and it does not leave it to the driver: `bytes` rounded up to
  // `alignment_bytes`, and not zeroed.
  static Expected<QueueMemory> allocate(const ForkGuard& guard, Allocator* allocator, MemoryUse use, std::size_t bytes,
                                        std::size_t alignment_bytes, const char* what);

  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  void swap(QueueMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(guard_, other.guard_);
    std::swap(allocator_, other.allocator_);
    std::swap(use_, other.use_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  ForkGuard guard_{};
  Allocator* allocator_ = nullptr;  // null: its own
  MemoryUse use_ = MemoryUse::kQp;
};

// A doorbell record of the pool, or of an allocator. Move-only; gives it back when it goes.
class DoorbellRecord {
 public:
  DoorbellRecord() = default;
  DoorbellRecord(DoorbellRecord&& other) noexcept { swap(other); }
  DoorbellRecord& operator=(DoorbellRecord&& other) noexcept {
    DoorbellRecord taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~DoorbellRecord();

  // Zeroed. Errors: ENOMEM, with `what` for whom it was.
  static Expected<DoorbellRecord> allocate(doorbell::RecordPool& pool, Allocator* allocator, const char* what);
  doorbell::RecordMemory* memory() const { return memory_; }

 private:
  void swap(DoorbellRecord& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(allocator_, other.allocator_);
    std::swap(pooled_, other.pooled_);
  }

  doorbell::RecordMemory* memory_ = nullptr;
  Allocator* allocator_ = nullptr;  // null: of the pool
  doorbell::PooledRecord pooled_;
};

}  // namespace umlx5
