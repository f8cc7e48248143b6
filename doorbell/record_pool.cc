#include "doorbell/record_pool.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <new>

namespace umlx5::doorbell {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

std::size_t cache_line_bytes() {
  const long reported = ::sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  return reported > 0 ? std::bit_ceil(static_cast<std::size_t>(reported)) : 64;
}

PooledRecord::~PooledRecord() {
  if (memory_ != nullptr) {
    pool_->give_back(memory_);
  }
}

void RecordPool::PageDeleter::operator()(std::byte* page) const { std::free(page); }

RecordPool::RecordPool(std::size_t stride_bytes)
    : stride_bytes_(std::clamp(std::bit_ceil(stride_bytes), sizeof(RecordMemory), doorbell::page_bytes())),
      page_bytes_(doorbell::page_bytes()) {}

RecordPool::~RecordPool() { assert(in_use_ == 0 && "a doorbell record outlives its pool"); }

bool RecordPool::add_page() {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(page_bytes_, page_bytes_));
  if (memory == nullptr) {
    return false;
  }
  pages_.emplace_back(memory);
  // Back to front, so that records are handed out in ascending order.
  for (std::size_t offset = page_bytes_; offset != 0; offset -= stride_bytes_) {
    free_ = new (memory + offset - stride_bytes_) FreeRecord{free_};
  }
  return true;
}

std::optional<PooledRecord> RecordPool::allocate() {
  const std::lock_guard lock(mutex_);
  if (free_ == nullptr && !add_page()) {
    return std::nullopt;
  }
  FreeRecord* record = std::exchange(free_, free_->next);
  ++in_use_;
  return PooledRecord(this, new (record) RecordMemory{});
}

void RecordPool::give_back(RecordMemory* memory) {
  const std::lock_guard lock(mutex_);
  free_ = new (memory) FreeRecord{free_};
  --in_use_;
}

std::size_t RecordPool::records_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

std::size_t RecordPool::pages() const {
  const std::lock_guard lock(mutex_);
  return pages_.size();
}

}  // namespace umlx5::doorbell
