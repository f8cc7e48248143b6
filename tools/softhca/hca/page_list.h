// A buffer given to the device as page addresses (PAS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/softhca/hca/address_space.h"

namespace softhca::hca {

// Position 0 is `first_offset_bytes` into the first page.
struct PageList {
  std::vector<std::uint64_t> page_addresses;
  std::uint8_t log_page_bytes = 12;
  std::uint32_t first_offset_bytes = 0;

  bool read(AddressSpace& dma, std::uint64_t position, std::span<std::byte> to) const;
  bool write(AddressSpace& dma, std::uint64_t position, std::span<const std::byte> from) const;
  // DMA address of one position, for single accesses; 0 if outside.
  std::uint64_t address(std::uint64_t position) const;
};

}  // namespace softhca::hca
