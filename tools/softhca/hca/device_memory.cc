#include "tools/softhca/hca/device_memory.h"

#include <algorithm>

namespace softhca::hca {

std::optional<std::uint64_t> DeviceMemory::allocate(std::uint64_t range_start, std::uint64_t range_bytes,
                                                    std::uint64_t bytes, std::uint64_t alignment) {
  const auto aligned = [&](std::uint64_t address) { return (address + alignment - 1) & ~(alignment - 1); };
  if (bytes == 0 || !contains(range_start, range_bytes)) {
    return std::nullopt;
  }
  std::uint64_t address = aligned(range_start);
  for (const auto& [start, taken] : taken_) {
    if (start + taken > address && start < address + bytes) {
      address = aligned(start + taken);
    }
  }
  if (address - range_start > range_bytes || bytes > range_bytes - (address - range_start)) {
    return std::nullopt;
  }
  taken_.emplace(address, bytes);
  std::ranges::fill(at(address, bytes), std::byte{0});
  return address;
}

bool DeviceMemory::free(std::uint64_t address, std::uint64_t bytes) {
  const auto found = taken_.find(address);
  if (found == taken_.end() || found->second != bytes) {
    return false;
  }
  taken_.erase(found);
  return true;
}

}  // namespace softhca::hca
