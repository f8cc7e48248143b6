// Memory keys: what a key allows and where its memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/key_protection.h"
#include "tools/softhca/hca/key_update.h"
#include "tools/softhca/hca/object_table.h"
#include "tools/softhca/hca/objects.h"
#include "tools/softhca/hca/services.h"

namespace softhca::hca {

// Key value (index << 8 | tag byte) that, like kReservedLkey, needs no object: any address and length, where writes
// vanish and reads give zeros. Indices of created keys start at kFirstMkeyIndex.
inline constexpr std::uint32_t kNullMkey = 0x00000300;
inline constexpr std::uint32_t kFirstMkeyIndex = 0x100;

// DMA addresses from here up are nowhere: NullableMemory lets writes vanish there, reads give zeros.
inline constexpr std::uint64_t kNullAddress = 0xff00'0000'0000'0000;
// From here up to there the device's own memory lies, by its offsets in the BAR.
inline constexpr std::uint64_t kBarAddress = 0xfe00'0000'0000'0000;

enum class MkeyTranslation : std::uint8_t {
  kPhysical,  // addresses are DMA addresses, from `base` on
  kPages,
  kKeys,  // a list of ranges of other keys, which UMR work requests write
};

// mkc.qpn of a key that any QP may use.
inline constexpr std::uint32_t kAnyQp = 0xffffff;

// A range of another key; the next time that the list comes round it lies `stride_bytes` further.
struct KeyPiece {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t bytes = 0;
  std::uint32_t stride_bytes = 0;
};

struct Mkey {
  std::uint32_t index = 0;
  std::uint32_t uid = 0;
  std::uint32_t pdn = 0;
  std::uint8_t tag = 0;  // low byte of the key
  bool free = false;
  bool remote_invalidate = false;
  bool umr_enabled = false;
  std::uint32_t qpn = kAnyQp;
  bool local_read = false, local_write = false;
  bool remote_read = false, remote_write = false, remote_atomic = false;
  bool whole_address_space = false;  // start and length do not matter
  std::uint64_t start = 0, length_bytes = 0;
  MkeyTranslation translation = MkeyTranslation::kPages;
  std::uint64_t base = 0;
  std::uint8_t log_page_bytes = 12;
  std::vector<std::uint64_t> pages;  // the first holds `start`
  UmemUse umem;                      // that they are of
  std::vector<KeyPiece> pieces;      // the first starts at `start`; the list comes `repeats` times
  std::uint64_t repeats = 1;
  std::uint32_t max_octowords = 0;  // of translations that it can hold
  std::optional<KeyProtection> protection;

  // Whether bytes do not pass it as they are.
  bool is_formatted() const { return protection && (protection->must_encrypt || protection->format); }

  // What forbids the access, without looking at memory. bytes is not 0.
  MkeyFault check(std::uint32_t key, const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access) const;
  // Appends the DMA ranges of [va, va+bytes), which check() has allowed, of a key that names no others. Adjacent pages
  // give one range.
  MkeyFault translate(std::uint64_t va, std::uint64_t bytes, std::vector<DmaRange>& ranges) const;
};

using MkeyTable = ObjectTable<Mkey>;

// Services::resolve(), invalidate() and update_key() over a device's keys. A key that names others needs local rights
// to these, in its own protection domain; at most `max_indirection` such keys in a row are followed.
MkeyFault resolve_key(const MkeyTable& keys, unsigned max_indirection, std::uint32_t key, const KeyUser& user,
                      std::uint64_t va, std::uint64_t bytes, Access access, std::vector<DmaRange>& ranges);
// Services::formatted_key() and resolve_formatted().
std::optional<FormattedKey> formatted_key(const MkeyTable& keys, std::uint32_t key);
MkeyFault resolve_formatted_key(const MkeyTable& keys, unsigned max_indirection, std::uint32_t key, const KeyUser& user,
                                std::uint64_t va, std::uint64_t bytes, Access access, std::vector<DmaRange>& ranges);
bool invalidate_key(const MkeyTable& keys, const KeyUser& user, std::uint32_t key);
bool update_key(const MkeyTable& keys, const KeyUser& user, const KeyUpdate& update);

// Services::set_psv().
bool set_psv(const ObjectTable<Psv>& psvs, const KeyUser& user, const PsvUpdate& update);

// Takes KLM entries, or a repeat block, into a key. False, and the key unchanged, if they make no sense or are too
// many.
bool take_key_list(std::span<const std::byte> entries, Mkey& mkey);

// Appends [address, address+bytes) in pieces that a DmaRange can hold, joined to the last range if they touch.
void append_range(std::uint64_t address, std::uint64_t bytes, std::vector<DmaRange>& ranges);

}  // namespace softhca::hca
