// Keys that name other keys, and what work requests do to keys.
#include <algorithm>

#include "tools/softhca/hca/mkey.h"
#include "wqe/umr.h"
#include "wqe/units.h"

namespace softhca::hca {
namespace {

namespace mask = umlx5::wqe::mkey_mask;
using umlx5::wqe::KlmEntry;
using umlx5::wqe::kOctowordBytes;
using umlx5::wqe::RepeatBlockHeader;
using umlx5::wqe::RepeatEntry;

// The right that a key needs of those that it names: theirs are never used from afar.
Access local_part(Access access) {
  return access == Access::kLocalRead || access == Access::kRemoteRead ? Access::kLocalRead : Access::kLocalWrite;
}

std::uint64_t round_bytes(const Mkey& mkey) {
  std::uint64_t sum = 0;
  for (const KeyPiece& piece : mkey.pieces) {
    sum += piece.bytes;
  }
  return sum;
}

// The piece at byte `position` of a round, which becomes the position in the piece; null behind the last.
const KeyPiece* piece_at(const Mkey& mkey, std::uint64_t& position) {
  for (const KeyPiece& piece : mkey.pieces) {
    if (position < piece.bytes) {
      return &piece;
    }
    position -= piece.bytes;
  }
  return nullptr;
}

MkeyFault resolve_pieces(const MkeyTable& keys, unsigned max_indirection, const Mkey& mkey, const KeyUser& user,
                         std::uint64_t va, std::uint64_t bytes, Access access, std::vector<DmaRange>& ranges) {
  const std::uint64_t round = round_bytes(mkey);
  if (max_indirection == 0 || round == 0) {
    return MkeyFault::kNotMapped;
  }
  std::uint64_t position = va - mkey.start;
  while (bytes != 0) {
    const std::uint64_t turn = position / round;
    std::uint64_t in_piece = position % round;
    const KeyPiece* const piece = piece_at(mkey, in_piece);
    if (turn >= mkey.repeats || piece == nullptr) {
      return MkeyFault::kNotMapped;
    }
    const std::uint64_t part = std::min<std::uint64_t>(bytes, piece->bytes - in_piece);
    const MkeyFault fault =
        resolve_key(keys, max_indirection - 1, piece->key, {mkey.pdn, user.qpn},
                    piece->address + turn * piece->stride_bytes + in_piece, part, local_part(access), ranges);
    if (fault != MkeyFault::kNone) {
      return fault;
    }
    position += part;
    bytes -= part;
  }
  return MkeyFault::kNone;
}

// What the key allows, and where that is.
MkeyFault resolve_memory(const MkeyTable& keys, unsigned max_indirection, const Mkey& mkey, std::uint32_t key,
                         const KeyUser& user, std::uint64_t va, std::uint64_t bytes, Access access,
                         std::vector<DmaRange>& ranges) {
  if (const MkeyFault fault = mkey.check(key, user, va, bytes, access); fault != MkeyFault::kNone) {
    return fault;
  }
  return mkey.translation == MkeyTranslation::kKeys
             ? resolve_pieces(keys, max_indirection, mkey, user, va, bytes, access, ranges)
             : mkey.translate(va, bytes, ranges);
}

// The formats in `bytes`, one or both, each marked with how many there are. False if they make no sense.
bool parse_formats(std::span<const std::byte> bytes, std::optional<KeyFormat>& format) {
  using umlx5::wqe::BsfSize;
  using umlx5::wqe::CryptoBsf;
  using umlx5::wqe::SignatureBsf;
  constexpr std::uint8_t kTypeMask = 0x3f;
  constexpr std::size_t kEach = SignatureBsf::kBytes;
  static_assert(kEach == CryptoBsf::kBytes);
  if (bytes.size() != kEach && bytes.size() != 2 * kEach) {
    return false;
  }
  const BsfSize size = bytes.size() == kEach ? BsfSize::k64 : BsfSize::k128;
  std::optional<SignatureBsf> signature;
  std::optional<CryptoBsf> crypto;
  if (size == BsfSize::k128 || (std::to_integer<std::uint8_t>(bytes[0]) & kTypeMask) != CryptoBsf::kTypeCrypto) {
    signature = umlx5::wqe::load<SignatureBsf>(bytes.data());
  }
  if (size == BsfSize::k128 || !signature) {
    crypto = umlx5::wqe::load<CryptoBsf>(bytes.last(kEach).data());
  }
  if ((signature && signature->size != size) || (crypto && crypto->size != size)) {
    return false;
  }
  format = KeyFormat::make(signature, crypto);
  return format.has_value();
}

// What a UMR says of formats and signature errors. False, and nothing changed, if the key cannot do it.
bool update_protection(const KeyUpdate& update, Mkey& mkey) {
  const std::uint64_t changes = update.control.mkey_mask;
  const bool switches = (changes & mask::kBsfEnable) != 0, consumes = (changes & mask::kSignatureError) != 0;
  if (!switches && !consumes && update.formats.empty()) {
    return true;
  }
  if (!mkey.protection || update.formats.size() / kOctowordBytes > mkey.protection->max_octowords) {
    return false;
  }
  KeyProtection& protection = *mkey.protection;
  std::optional<KeyFormat> format = protection.format;
  if (!update.formats.empty() && !parse_formats(update.formats, format)) {
    return false;
  }
  if (switches && !update.context.bsf_enable) {
    format.reset();
  }
  protection.format = format;
  if (consumes) {
    protection.reports = update.context.signature_error_parity == ((protection.errors & 1) != 0);
  }
  return true;
}

// A repeat block: a header and its entries.
bool take_repeat_block(std::span<const std::byte> entries, std::vector<KeyPiece>& pieces, std::uint64_t& repeats) {
  const auto header = umlx5::wqe::load<RepeatBlockHeader>(entries.data());
  if ((header.entries + std::size_t{1}) * kOctowordBytes > entries.size()) {
    return false;
  }
  std::uint64_t round = 0;
  for (std::size_t i = 1; i <= header.entries; ++i) {
    const auto entry = umlx5::wqe::load<RepeatEntry>(entries.data() + i * kOctowordBytes);
    pieces.push_back({entry.address, entry.mkey, entry.byte_count, entry.stride_bytes});
    round += entry.byte_count;
  }
  repeats = header.repeat_count;
  return round == header.byte_count;
}

}  // namespace

MkeyFault resolve_key(const MkeyTable& keys, unsigned max_indirection, std::uint32_t key, const KeyUser& user,
                      std::uint64_t va, std::uint64_t bytes, Access access, std::vector<DmaRange>& ranges) {
  if (bytes == 0) {
    return MkeyFault::kNone;
  }
  if (key == kNullMkey) {
    // Remote peers may not use it: it belongs to no PD.
    if (access != Access::kLocalRead && access != Access::kLocalWrite) {
      return MkeyFault::kNoRight;
    }
    append_range(kNullAddress, bytes, ranges);
    return MkeyFault::kNone;
  }
  const Mkey* const mkey = keys.find(key >> 8);
  if (mkey == nullptr) {
    return MkeyFault::kNoSuchKey;
  }
  if (mkey->is_formatted()) {
    return MkeyFault::kFormatted;
  }
  return resolve_memory(keys, max_indirection, *mkey, key, user, va, bytes, access, ranges);
}

std::optional<FormattedKey> formatted_key(const MkeyTable& keys, std::uint32_t key) {
  Mkey* const mkey = keys.find(key >> 8);
  return mkey != nullptr && mkey->is_formatted()
             ? std::optional(FormattedKey{&*mkey->protection, mkey->start, mkey->length_bytes})
             : std::nullopt;
}

MkeyFault resolve_formatted_key(const MkeyTable& keys, unsigned max_indirection, std::uint32_t key, const KeyUser& user,
                                std::uint64_t va, std::uint64_t bytes, Access access, std::vector<DmaRange>& ranges) {
  const Mkey* const mkey = keys.find(key >> 8);
  if (mkey == nullptr) {
    return MkeyFault::kNoSuchKey;
  }
  return bytes == 0 ? MkeyFault::kNone
                    : resolve_memory(keys, max_indirection, *mkey, key, user, va, bytes, access, ranges);
}

bool invalidate_key(const MkeyTable& keys, const KeyUser& user, std::uint32_t key) {
  Mkey* const mkey = keys.find(key >> 8);
  if (mkey == nullptr || mkey->free || !mkey->remote_invalidate || mkey->tag != (key & 0xff) || mkey->pdn != user.pdn ||
      (mkey->qpn != kAnyQp && mkey->qpn != user.qpn)) {
    return false;
  }
  mkey->free = true;
  return true;
}

bool take_key_list(std::span<const std::byte> entries, Mkey& mkey) {
  if (mkey.translation != MkeyTranslation::kKeys || entries.size() / kOctowordBytes > mkey.max_octowords) {
    return false;
  }
  std::vector<KeyPiece> pieces;
  std::uint64_t repeats = 1;
  // No key has the index 4, so that a KLM entry is not taken for a repeat block.
  if (!entries.empty() &&
      umlx5::wqe::load<RepeatBlockHeader>(entries.data()).operation == RepeatBlockHeader::kOperation) {
    if (!take_repeat_block(entries, pieces, repeats)) {
      return false;
    }
  } else {
    for (std::size_t at = 0; at < entries.size(); at += kOctowordBytes) {
      const auto entry = umlx5::wqe::load<KlmEntry>(entries.data() + at);
      if (entry.byte_count != 0) {  // else padding
        pieces.push_back({entry.address, entry.mkey, entry.byte_count, 0});
      }
    }
  }
  mkey.pieces = std::move(pieces);
  mkey.repeats = repeats;
  return true;
}

bool update_key(const MkeyTable& keys, const KeyUser& user, const KeyUpdate& update) {
  Mkey* const mkey = keys.find(update.key >> 8);
  const std::uint64_t changes = update.control.mkey_mask;
  constexpr std::uint64_t kKnown = mask::kLength | mask::kStartAddress | mask::kMkey | mask::kQpn | mask::kLocalWrite |
                                   mask::kRemoteRead | mask::kRemoteWrite | mask::kAtomic | mask::kFree |
                                   mask::kBsfEnable | mask::kSignatureError;
  if (mkey == nullptr || !mkey->umr_enabled || mkey->pdn != user.pdn || (changes & ~kKnown) != 0 ||
      (update.control.check_free && !mkey->free) ||
      (update.control.check_qpn && mkey->qpn != kAnyQp && mkey->qpn != user.qpn)) {
    return false;
  }
  const auto protection = mkey->protection;
  if (!update_protection(update, *mkey)) {
    return false;
  }
  if (!update.translations.empty() && !take_key_list(update.translations, *mkey)) {
    mkey->protection = protection;
    return false;
  }
  const umlx5::wqe::MkeyContextSegment& context = update.context;
  const auto change = [&](std::uint64_t bit, auto& member, auto value) {
    if ((changes & bit) != 0) {
      member = value;
    }
  };
  change(mask::kLength, mkey->length_bytes, context.length_bytes);
  change(mask::kStartAddress, mkey->start, context.start_address);
  change(mask::kMkey, mkey->tag, context.key_tag);
  change(mask::kQpn, mkey->qpn, context.qpn);
  change(mask::kLocalWrite, mkey->local_write, context.access_local_write);
  change(mask::kRemoteRead, mkey->remote_read, context.access_remote_read);
  change(mask::kRemoteWrite, mkey->remote_write, context.access_remote_write);
  change(mask::kAtomic, mkey->remote_atomic, context.access_atomic);
  change(mask::kFree, mkey->free, context.free);
  return true;
}

bool set_psv(const ObjectTable<Psv>& psvs, const KeyUser& user, const PsvUpdate& update) {
  Psv* const psv = psvs.find(update.psv);
  if (psv == nullptr || psv->pdn != user.pdn) {
    return false;
  }
  psv->value = update.value;
  psv->in_error = false;
  return true;
}

}  // namespace softhca::hca
