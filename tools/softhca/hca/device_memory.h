// Memory on the device (MEMIC): allocated by command, mapped by programs, reached by keys of its own kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <span>

#include "tools/softhca/shared_memory.h"

namespace softhca::hca {

// Its place in the device's BAR, behind the UAR pages.
inline constexpr std::uint64_t kMemicBarStart = 0x0200'0000;
inline constexpr std::uint64_t kMemicGranuleBytes = 64;

// Not thread-safe, but for the memory itself. Addresses are offsets into the BAR.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : memory_(bytes) {}

  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t offset = address - kMemicBarStart;
    return offset <= memory_.bytes().size() && bytes <= memory_.bytes().size() - offset;
  }
  // [address, address+bytes) as the device sees it; empty if some of it is outside.
  std::span<std::byte> at(std::uint64_t address, std::uint64_t bytes) const {
    return contains(address, bytes) ? memory_.bytes().subspan(address - kMemicBarStart, bytes) : std::span<std::byte>{};
  }

  // Takes `bytes` bytes at an address that `alignment` divides, the first that is free in the range. None is. The
  // memory reads as zeros.
  std::optional<std::uint64_t> allocate(std::uint64_t range_start, std::uint64_t range_bytes, std::uint64_t bytes,
                                        std::uint64_t alignment);
  // False if that is not what one allocate() gave.
  bool free(std::uint64_t address, std::uint64_t bytes);

  // A mapping of whole pages for a program.
  std::expected<std::byte*, int> map(std::uint64_t address, std::size_t bytes, int protection) const {
    return memory_.map(address - kMemicBarStart, bytes, protection);
  }

 private:
  SharedMemory memory_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // address to bytes
};

}  // namespace softhca::hca
