// The producer counters that software leaves in a queue's doorbell record.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "tools/softhca/hca/address_space.h"

namespace softhca::hca {

inline constexpr std::uint64_t kReceiveCounterOffset = 0;
inline constexpr std::uint64_t kSendCounterOffset = 4;

// The low 16 bits of the BE32 counter at `address`.
inline std::optional<std::uint16_t> load_counter(AddressSpace& dma, std::uint64_t address) {
  const std::optional<std::uint32_t> word = dma.load32(address);
  if (!word) {
    return std::nullopt;
  }
  const std::uint32_t value = std::endian::native == std::endian::little ? std::byteswap(*word) : *word;
  return static_cast<std::uint16_t>(value);
}

}  // namespace softhca::hca
