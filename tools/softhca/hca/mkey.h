// Memory keys: what a key allows and where its pages are.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/softhca/hca/objects.h"

namespace softhca::hca {

// Key value (index << 8 | tag byte) that, like kReservedLkey, needs no object: any address and length, where writes
// vanish and reads give zeros. Indices of created keys start at kFirstMkeyIndex.
inline constexpr std::uint32_t kNullMkey = 0x00000300;
inline constexpr std::uint32_t kFirstMkeyIndex = 0x100;

// DMA addresses from here up are nowhere: NullableMemory lets writes vanish there, reads give zeros.
inline constexpr std::uint64_t kNullAddress = 0xff00'0000'0000'0000;

enum class MkeyTranslation : std::uint8_t {
  kPhysical,  // addresses are DMA addresses
  kPages,
};

struct Mkey {
  std::uint32_t index = 0;
  std::uint32_t uid = 0;
  std::uint32_t pdn = 0;
  std::uint8_t tag = 0;  // low byte of the key
  bool free = false;
  bool remote_invalidate = false;
  bool local_read = false, local_write = false;
  bool remote_read = false, remote_write = false, remote_atomic = false;
  bool whole_address_space = false;  // start and length do not matter
  std::uint64_t start = 0, length_bytes = 0;
  MkeyTranslation translation = MkeyTranslation::kPages;
  std::uint8_t log_page_bytes = 12;
  std::vector<std::uint64_t> pages;  // the first holds `start`

  // What forbids the access, without looking at memory. bytes is not 0.
  MkeyFault check(std::uint32_t key, std::uint32_t access_pdn, std::uint64_t va, std::uint64_t bytes,
                  Access access) const;
  // Appends the DMA ranges of [va, va+bytes), which check() has allowed. Adjacent pages give one range.
  MkeyFault translate(std::uint64_t va, std::uint64_t bytes, std::vector<DmaRange>& ranges) const;
};

// Appends [address, address+bytes) in pieces that a DmaRange can hold, joined to the last range if they touch.
void append_range(std::uint64_t address, std::uint64_t bytes, std::vector<DmaRange>& ranges);

}  // namespace softhca::hca
