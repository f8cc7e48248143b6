// Memory of a queue, which the device reads and writes.
#pragma once

#include <cstddef>
#include <utility>

#include "uapi/error.h"

namespace umlx5 {

// Whole pages of their own, zeroed, and not inherited by a forked child (a copy-on-write fault in the parent would
// move the pages away from the device). Move-only; unmaps when it goes. Not for use by two threads at once.
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
  static Expected<QueueMemory> allocate(std::size_t bytes, const char* what);

  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }  // whole pages

 private:
  void swap(QueueMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace umlx5
