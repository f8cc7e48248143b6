// Memory for doorbell records: pages cut into cache lines, so that queues of different threads share none.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "doorbell/record.h"

namespace umlx5::doorbell {

// Bytes of a cache line of this machine; 64 if it does not say.
std::size_t cache_line_bytes();

class RecordPool;

// One record; goes back to its pool when destroyed. The pool must outlive it.
class PooledRecord {
 public:
  PooledRecord() = default;
  PooledRecord(PooledRecord&& other) noexcept { swap(other); }
  PooledRecord& operator=(PooledRecord&& other) noexcept {
    PooledRecord taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~PooledRecord();

  // Null for a default-constructed or moved-from record.
  RecordMemory* memory() const { return memory_; }

 private:
  friend class RecordPool;
  PooledRecord(RecordPool* pool, RecordMemory* memory) : pool_(pool), memory_(memory) {}
  void swap(PooledRecord& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
  }

  RecordPool* pool_ = nullptr;
  RecordMemory* memory_ = nullptr;
};

// Called with each page that the pool takes (then 0: it can be used) and before each that it gives back.
struct RecordPageHooks {
  int (*taken)(void* page, std::size_t bytes) = nullptr;
  int (*given_back)(void* page, std::size_t bytes) = nullptr;
};

// Thread-safe; not for hot paths. Pages are kept until the pool dies, for the kernel pins them as long as a queue
// lives. Records are written to when they are handed out and by who holds them, not when they come back: in a forked
// child they may be gone.
class RecordPool {
 public:
  // `stride_bytes` is the distance of two records: a power of two, from a record's size to a page.
  explicit RecordPool(std::size_t stride_bytes = cache_line_bytes());
  // Before the first record.
  void set_page_hooks(const RecordPageHooks& hooks) { hooks_ = hooks; }
  ~RecordPool();
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  // A record whose words are zero, whatever a former owner left there. Nothing if there is no memory.
  std::optional<PooledRecord> allocate();

  std::size_t records_in_use() const;
  std::size_t pages() const;

 private:
  friend class PooledRecord;
  bool add_page();
  void give_back(RecordMemory* memory);

  const std::size_t stride_bytes_;
  const std::size_t page_bytes_;
  RecordPageHooks hooks_;
  mutable std::mutex mutex_;
  std::vector<std::byte*> free_;  // the last is handed out next
  std::size_t in_use_ = 0;
  std::vector<std::byte*> pages_;
};

}  // namespace umlx5::doorbell
