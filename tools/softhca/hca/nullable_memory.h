// What the device reaches: memory by DMA, its own memory, and a hole into which writes vanish and which reads as zeros,
// where the null key's ranges lie.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "tools/softhca/hca/address_space.h"
#include "tools/softhca/hca/device_memory.h"
#include "tools/softhca/hca/mkey.h"

namespace softhca::hca {

class NullableMemory final : public AddressSpace {
 public:
  NullableMemory(AddressSpace& memory, const DeviceMemory& own) : memory_(memory), own_(own) {}

  bool read(std::uint64_t address, std::span<std::byte> to) override {
    if (nowhere(address)) {
      std::ranges::fill(to, std::byte{0});
      return true;
    }
    if (own(address)) {
      const auto from = own_.at(address - kBarAddress, to.size());
      std::ranges::copy(from, to.begin());
      return from.size() == to.size();
    }
    return memory_.read(address, to);
  }
  bool write(std::uint64_t address, std::span<const std::byte> from) override {
    if (own(address)) {
      const auto to = own_.at(address - kBarAddress, from.size());
      std::copy_n(from.begin(), to.size(), to.begin());
      return to.size() == from.size();
    }
    return nowhere(address) || memory_.write(address, from);
  }
  std::optional<std::uint32_t> load32(std::uint64_t address) override { return memory_.load32(address); }
  bool store8(std::uint64_t address, std::uint8_t value) override {
    return nowhere(address) || memory_.store8(address, value);
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare, std::uint64_t swap) override {
    if (own(address)) {
      auto* const word = own_word(address);
      if (word != nullptr) {
        std::atomic_ref(*word).compare_exchange_strong(compare, swap);
      }
      return word == nullptr ? std::nullopt : std::optional(compare);
    }
    return nowhere(address) ? std::optional<std::uint64_t>{0} : memory_.compare_swap(address, compare, swap);
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override {
    if (own(address)) {
      auto* const word = own_word(address);
      return word == nullptr ? std::nullopt : std::optional(std::atomic_ref(*word).fetch_add(add));
    }
    return nowhere(address) ? std::optional<std::uint64_t>{0} : memory_.fetch_add(address, add);
  }

 private:
  static bool nowhere(std::uint64_t address) { return address >= kNullAddress; }
  static bool own(std::uint64_t address) { return address >= kBarAddress && address < kNullAddress; }
  std::uint64_t* own_word(std::uint64_t address) const {
    const auto word = own_.at(address - kBarAddress, sizeof(std::uint64_t));
    return word.empty() || address % sizeof(std::uint64_t) != 0 ? nullptr
                                                                : reinterpret_cast<std::uint64_t*>(word.data());
  }

  AddressSpace& memory_;
  const DeviceMemory& own_;
};

}  // namespace softhca::hca
