// The memory that the device reaches by DMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace softhca::hca {

// Addresses are what the device was told: virtual addresses of the process (identity), or guest-physical ones.
// A false or empty result means that some of the range is not accessible; nothing is then promised about the rest.
// Callable from the device's thread and from threads that execute commands, one at a time (the HCA's lock is held).
class AddressSpace {
 public:
  virtual ~AddressSpace() = default;

  virtual bool read(std::uint64_t address, std::span<std::byte> to) = 0;
  virtual bool write(std::uint64_t address, std::span<const std::byte> from) = 0;

  // Naturally aligned single accesses. Loads acquire and stores release, so that what the other side wrote before its
  // own store (a doorbell record), or reads after its own load (an ownership byte), is ordered. Values are as they lie
  // in memory (no byte swapping).
  virtual std::optional<std::uint32_t> load32(std::uint64_t address) = 0;
  virtual bool store8(std::uint64_t address, std::uint8_t value) = 0;

  // Atomic against the CPU on a naturally aligned 64-bit word in native byte order; the value before is returned.
  virtual std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare,
                                                    std::uint64_t swap) = 0;
  virtual std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) = 0;
};

}  // namespace softhca::hca
