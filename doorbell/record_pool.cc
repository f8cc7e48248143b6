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

RecordPool::RecordPool(std::size_t stride_bytes)
    : stride_bytes_(std::clamp(std::bit_ceil(stride_bytes), sizeof(RecordMemory), doorbell::page_bytes())),
      page_bytes_(doorbell::page_bytes()) {}

RecordPool::~RecordPool() {
  assert(in_use_ == 0 && "a doorbell record outlives its pool");
  for (std::byte* page : pages_) {
    if (hooks_.given_back != nullptr) {
      hooks_.given_back(page, page_bytes_);
    }
    std::free(page);
  }
}

bool RecordPool::add_page() {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(page_bytes_, page_bytes_));
  if (memory == nullptr || (hooks_.taken != nullptr && hooks_.taken(memory, page_bytes_) != 0)) {
    std::free(memory);
    return false;
  }
  pages_.push_back(memory);
  free_.reserve(pages_.size() * (page_bytes_ / stride_bytes_));  // giving back never allocates
  // Back to front, so that records are handed out in ascending order.
  for (std::size_t offset = page_bytes_; offset != 0; offset -= stride_bytes_) {
    free_.push_back(memory + offset - stride_bytes_);
  }
  return true;
}

std::optional<PooledRecord> RecordPool::allocate() {
  const std::lock_guard lock(mutex_);
  if (free_.empty() && !add_page()) {
    return std::nullopt;
  }
  std::byte* const record = free_.back();
  free_.pop_back();
  ++in_use_;
  return PooledRecord(this, new (record) RecordMemory{});
}

void RecordPool::give_back(RecordMemory* memory) {
  const std::lock_guard lock(mutex_);
  free_.push_back(reinterpret_cast<std::byte*>(memory));
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
