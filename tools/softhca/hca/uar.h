// UAR pages: plain memory in which the device finds the doorbells that software stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <vector>

#include "tools/softhca/hca/object_table.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/shared_memory.h"

namespace softhca::hca {

struct QpObject;

inline constexpr std::size_t kUarPageBytes = 4096;

// Doorbell registers in a page. The send doorbells are 8-byte registers: two BlueFlame registers of 512 bytes, each of
// two halves that software uses in turn, or four plain doorbells 256 bytes apart.
inline constexpr std::uint32_t kCqArmOffset = 0x20, kEqArmOffset = 0x40, kEqConsumerOffset = 0x48;
inline constexpr std::uint32_t kSendDoorbellOffset = 0x800, kSendDoorbellStride = 0x100, kSendDoorbells = 4;

struct UarPage {
  bool allocated = false;
  std::uint32_t uid = 0;
  std::vector<QpObject*> qps;
  std::vector<Cq*> cqs;
  std::vector<Eq*> eqs;
};

// The pages' bookkeeping and memory. Not thread-safe, but for the memory itself.
class UarPages {
 public:
  explicit UarPages(std::uint32_t pages);

  // False if none is left. The page reads as zeros.
  bool allocate(std::uint32_t uid, std::uint32_t& index);
  void free(std::uint32_t index);
  // Null if it is not allocated.
  UarPage* find(std::uint32_t index);
  const std::vector<std::uint32_t>& allocated() const { return allocated_; }

  std::byte* page(std::uint32_t index) const { return memory_.bytes().data() + std::size_t{index} * kUarPageBytes; }
  // A mapping of the page for a program.
  std::expected<std::byte*, int> map(std::uint32_t index, int protection) const {
    return memory_.map(std::uint64_t{index} * kUarPageBytes, kUarPageBytes, protection);
  }

  // Takes what a register holds and leaves zero: values in host order, most significant byte first in memory.
  std::uint64_t take64(std::uint32_t index, std::uint32_t offset_bytes);
  std::uint32_t take32(std::uint32_t index, std::uint32_t offset_bytes);
  // True if any register of the page is not zero.
  bool waits(std::uint32_t index) const;

 private:
  std::vector<UarPage> pages_;
  std::vector<std::uint32_t> allocated_;
  NumberPool numbers_;
  SharedMemory memory_;
};

}  // namespace softhca::hca
