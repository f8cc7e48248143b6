// An address space with a hole into which writes vanish and which reads as zeros: where the null key's ranges lie.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tools/softhca/hca/address_space.h"
#include "tools/softhca/hca/mkey.h"

namespace softhca::hca {

class NullableMemory final : public AddressSpace {
 public:
  explicit NullableMemory(AddressSpace& memory) : memory_(memory) {}

  bool read(std::uint64_t address, std::span<std::byte> to) override {
    if (nowhere(address)) {
      std::ranges::fill(to, std::byte{0});
      return true;
    }
    return memory_.read(address, to);
  }
  bool write(std::uint64_t address, std::span<const std::byte> from) override {
    return nowhere(address) || memory_.write(address, from);
  }
  std::optional<std::uint32_t> load32(std::uint64_t address) override { return memory_.load32(address); }
  bool store8(std::uint64_t address, std::uint8_t value) override {
    return nowhere(address) || memory_.store8(address, value);
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare, std::uint64_t swap) override {
    return nowhere(address) ? std::optional<std::uint64_t>{0} : memory_.compare_swap(address, compare, swap);
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override {
    return nowhere(address) ? std::optional<std::uint64_t>{0} : memory_.fetch_add(address, add);
  }

 private:
  static bool nowhere(std::uint64_t address) { return address >= kNullAddress; }

  AddressSpace& memory_;
};

}  // namespace softhca::hca
