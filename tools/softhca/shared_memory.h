// Memory of the device that programs map: it has a mapping of its own, so whatever a program does to those it was
// given, the device keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

namespace softhca {

// Whole pages of a file in memory. Immutable but for its bytes; map() is thread-safe.
class SharedMemory {
 public:
  // std::bad_alloc if there is no memory or no descriptor.
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // The device's own mapping.
  std::span<std::byte> bytes() const { return {memory_, bytes_}; }

  // One more mapping, with its pages there, of whole pages from `offset_bytes` on: munmap() ends it, and it may outlive
  // this object. Errno; EINVAL if there are no such pages.
  std::expected<std::byte*, int> map(std::uint64_t offset_bytes, std::size_t bytes, int protection) const;

  // Empties all pages; in every mapping the next access to one brings a new page of zeros.
  void drop() const;

 private:
  int fd_;
  std::size_t bytes_;
  std::byte* memory_;
};

}  // namespace softhca
