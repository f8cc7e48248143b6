#include "driver/mkey_wqe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>

#include "wqe/bsf.h"
#include "wqe/data.h"
#include "wqe/umr.h"

namespace umlx5 {
namespace {

constexpr std::size_t kHeadBytes = wqe::UmrControlSegment::kBytes + wqe::MkeyContextSegment::kBytes;
constexpr std::size_t kEntryBytes = wqe::KlmEntry::kBytes;
static_assert(wqe::KlmEntry::kBytes == wqe::RepeatBlockHeader::kBytes &&
              wqe::KlmEntry::kBytes == wqe::RepeatEntry::kBytes);
constexpr std::size_t kLayoutAlignBytes = wqe::kTranslationAlignOctowords * wqe::kOctowordBytes;

constexpr std::uint32_t kAnyQp = 0xffffff;

constexpr std::uint32_t kSettableAccess =
    (Access::kLocalWrite | Access::kRemoteWrite).bits() | (Access::kRemoteRead | Access::kRemoteAtomic).bits();

wqe::BlockSelector selector_of(BlockSize size) {
  switch (size) {
    case BlockSize::k512:
      return wqe::BlockSelector::k512;
    case BlockSize::k520:
      return wqe::BlockSelector::k520;
    case BlockSize::k4048:
      return wqe::BlockSelector::k4048;
    case BlockSize::k4096:
      return wqe::BlockSelector::k4096;
    case BlockSize::k4160:
      return wqe::BlockSelector::k4160;
  }
  return wqe::BlockSelector::kNone;
}

// ---- Checks

Expected<void> check_signature(const SignatureBlock& block, const MkeyState& state) {
  if (!state.signatures) {
    return fail(EINVAL, "mkey: it was not made for block signatures");
  }
  const std::string_view fault = fault_of(block);
  return fault.empty() ? Expected<void>{} : fail(EINVAL, fmt::format("mkey: {}", fault));
}

wqe::EncryptionOrder order_of(const EncryptionBlock& block) {
  const bool after = block.signature_order == SignatureOrder::kAfterEncryption;
  if (block.encrypt_on_transmit) {
    return after ? wqe::EncryptionOrder::kEncryptedRawWire : wqe::EncryptionOrder::kEncryptedWireSignature;
  }
  return after ? wqe::EncryptionOrder::kEncryptedMemorySignature : wqe::EncryptionOrder::kEncryptedRawMemory;
}

Expected<void> check_encryption(const EncryptionBlock& block, const MkeyState& state,
                                const std::optional<SignatureBlock>& signature) {
  if (!state.encrypts) {
    return fail(EINVAL, "mkey: it was not made for encryption");
  }
  if (block.data_unit > BlockSize::k4160 || block.signature_order > SignatureOrder::kBeforeEncryption) {
    return fail(EINVAL, "mkey: data unit size or signature order of the encryption does not exist");
  }
  const wqe::EncryptionOrder order = order_of(block);
  const bool raw =
      order == wqe::EncryptionOrder::kEncryptedRawWire || order == wqe::EncryptionOrder::kEncryptedRawMemory;
  if (raw && signature && signature->memory && signature->wire) {
    return fail(EINVAL, "mkey: in this order of encryption and signature the device has signatures in one domain only");
  }
  return {};
}

// ---- Layout

struct Layout {
  std::size_t entries = 0;  // octowords used
  std::uint64_t length_bytes = 0;
  std::size_t padded_bytes() const {
    return (entries * kEntryBytes + kLayoutAlignBytes - 1) / kLayoutAlignBytes * kLayoutAlignBytes;
  }
};

Expected<Layout> check_layout(const MkeyChange& change, const MkeyLimits& limits, const MkeyState& state) {
  const auto* list = std::get_if<ListLayout>(&change.layout);
  const auto* interleaved = std::get_if<InterleavedLayout>(&change.layout);
  const std::size_t count = list != nullptr          ? list->sges.size()
                            : interleaved != nullptr ? interleaved->entries.size()
                                                     : 0;
  const std::size_t header = interleaved != nullptr ? 1 : 0;
  const std::size_t room = (limits.max_inline_bytes + wqe::InlineHeader::kBytes) / kEntryBytes;
  const std::size_t most = std::min<std::size_t>(room < header ? 0 : room - header, state.max_entries);
  if (count > most) {
    return fail(ENOMEM,
                fmt::format("mkey: a layout of {} entries; at most {} ({} the key was made for, {} fit a send queue "
                            "with {} inline bytes)",
                            count, most, state.max_entries, room, limits.max_inline_bytes));
  }
  Layout layout{.entries = count + header};
  if (list != nullptr) {
    for (const Sge& sge : list->sges) {
      layout.length_bytes += sge.length_bytes;
    }
  } else if (interleaved != nullptr) {
    for (const InterleavedSge& entry : interleaved->entries) {
      if (entry.bytes + entry.skip > std::numeric_limits<std::uint16_t>::max()) {
        return fail(EINVAL, fmt::format("mkey: an interleaved entry of {} bytes and {} skipped; together at most 65535 "
                                        "(width of the stride)",
                                        entry.bytes, entry.skip));
      }
      layout.length_bytes += entry.bytes;
    }
    layout.length_bytes *= interleaved->repeat;
  }
  return layout;
}

void put_layout(const MkeyChange& change, std::byte* at) {
  if (const auto* list = std::get_if<ListLayout>(&change.layout)) {
    for (const Sge& sge : list->sges) {
      wqe::store(at, wqe::KlmEntry{.byte_count = sge.length_bytes, .mkey = sge.lkey, .address = sge.address});
      at += kEntryBytes;
    }
  } else if (const auto* interleaved = std::get_if<InterleavedLayout>(&change.layout)) {
    std::uint32_t once = 0;
    for (const InterleavedSge& entry : interleaved->entries) {
      once += entry.bytes;
    }
    wqe::store(at, wqe::RepeatBlockHeader{.byte_count = once,
                                          .repeat_count = interleaved->repeat,
                                          .entries = static_cast<std::uint16_t>(interleaved->entries.size())});
    for (const InterleavedSge& entry : interleaved->entries) {
      at += kEntryBytes;
      wqe::store(at, wqe::RepeatEntry{.stride_bytes = static_cast<std::uint16_t>(entry.bytes + entry.skip),
                                      .byte_count = entry.bytes,
                                      .mkey = entry.lkey,
                                      .address = entry.address});
    }
  }
}

// ---- Formats

std::uint8_t format_of(const CrcSignature& crc) {
  constexpr std::uint8_t kKinds[] = {wqe::block_format::kCrc32, wqe::block_format::kCrc32c,
                                     wqe::block_format::kCrc64Xp10};
  return kKinds[static_cast<unsigned>(crc.type)] | wqe::block_format::kRepeatEachBlock |
         (crc.seed == 0 ? wqe::block_format::kSeedZero : 0);
}

wqe::BsfInline inline_of(const T10Dif& dif) {
  using wqe::BsfInline;
  return {.valid_refresh = BsfInline::kValid | BsfInline::kRefresh,
          .application_tag = dif.application_tag,
          .reference_tag = dif.reference_tag,
          .guard_type = dif.guard == GuardType::kCrc ? BsfInline::kTypeCrc : BsfInline::kTypeChecksum,
          .repeat_and_seed =
              static_cast<std::uint8_t>(BsfInline::kRepeatBlock | (dif.background != 0 ? BsfInline::kSeedInverted : 0)),
          .flags = static_cast<std::uint8_t>((dif.increment_reference_tag ? BsfInline::kIncrementReferenceTag : 0) |
                                             (dif.escape_both_tags         ? BsfInline::kApplicationAndReferenceEscape
                                              : dif.escape_application_tag ? BsfInline::kApplicationEscape
                                                                           : 0)),
          .application_mask = 0xffff};
}

// What both domains have in common may be passed on as it came.
std::uint8_t common_bytes(const SignatureBlock& block) {
  if (const auto* crc = std::get_if<CrcSignature>(&block.wire->signature)) {
    return crc->type == CrcType::kCrc64Xp10 ? signature_mask::kCrc64 : signature_mask::kCrc32;
  }
  const auto& memory = std::get<T10Dif>(block.memory->signature);
  const auto& wire = std::get<T10Dif>(block.wire->signature);
  return (memory.guard == wire.guard && memory.background == wire.background ? signature_mask::kGuard : 0) |
         (memory.application_tag == wire.application_tag ? signature_mask::kApplicationTag : 0) |
         (memory.reference_tag == wire.reference_tag ? signature_mask::kReferenceTag : 0);
}

wqe::SignatureBsf signature_bsf(const MkeyState::Signatures& signatures, bool with_crypto) {
  wqe::SignatureBsf bsf{.size = with_crypto ? wqe::BsfSize::k128 : wqe::BsfSize::k64};
  if (!signatures.block) {
    return bsf;
  }
  const SignatureBlock& block = *signatures.block;
  bsf.check_mask = block.check_mask;
  const auto describe = [](const SignatureDomain& domain, std::uint8_t& format, wqe::BsfInline& dif) {
    if (const auto* crc = std::get_if<CrcSignature>(&domain.signature)) {
      format = format_of(*crc);
    } else {
      dif = inline_of(std::get<T10Dif>(domain.signature));
    }
  };
  if (block.memory) {
    describe(*block.memory, bsf.memory_format, bsf.memory);
    bsf.memory_psv = signatures.memory_psv;
    bsf.memory_block = selector_of(block.memory->block);
  }
  if (block.wire) {
    describe(*block.wire, bsf.wire_format, bsf.wire);
    bsf.wire_psv = signatures.wire_psv;
    bsf.same_structure = has_same_structure(block);
    bsf.wire_or_copy = bsf.same_structure ? block.copy_mask.value_or(common_bytes(block))
                                          : static_cast<std::uint8_t>(selector_of(block.wire->block));
  }
  return bsf;
}

wqe::CryptoBsf crypto_bsf(const EncryptionBlock& block, bool with_signature, bool big_endian_tweak) {
  wqe::CryptoBsf bsf{.size = with_signature ? wqe::BsfSize::k128 : wqe::BsfSize::k64,
                     .order = order_of(block),
                     .block = selector_of(block.data_unit),
                     .initial_tweak = block.initial_tweak,
                     .dek = block.dek & 0xffffff,
                     .keytag = block.keytag};
  if (big_endian_tweak) {
    std::reverse(bsf.initial_tweak.begin(), bsf.initial_tweak.end());
  }
  return bsf;
}

// ---- Running values

std::uint64_t start_of(const SignatureDomain& domain) {
  if (const auto* crc = std::get_if<CrcSignature>(&domain.signature)) {
    return crc->type == CrcType::kCrc64Xp10 ? crc->seed : crc->seed << 32;
  }
  const auto& dif = std::get<T10Dif>(domain.signature);
  return std::uint64_t{dif.background} << 48 | std::uint64_t{dif.application_tag} << 32 | dif.reference_tag;
}

void put_psvs(const MkeyState::Signatures& signatures, MkeyWqes& wqes) {
  if (signatures.block->memory) {
    wqes.psvs[wqes.psv_count++] = {signatures.memory_psv, start_of(*signatures.block->memory)};
  }
  if (signatures.block->wire) {
    wqes.psvs[wqes.psv_count++] = {signatures.wire_psv, start_of(*signatures.block->wire)};
  }
}

// ---- The whole

// Checks what the change says of signatures and encryption, which may be about what the key keeps.
Expected<void> change_formats(const MkeyChange& change, const MkeyLimits& limits, const MkeyState& before,
                              MkeyState& after) {
  if (change.forget_signature && after.signatures) {
    after.signatures->block.reset();
  }
  if (change.signature) {
    if (auto result = check_signature(*change.signature, before); !result) {
      return result;
    }
    after.signatures->block = change.signature;
  }
  if (change.encryption) {
    after.encryption = change.encryption;
  }
  if (!after.encryption) {
    return {};
  }
  if (auto result =
          check_encryption(*after.encryption, before, after.signatures ? after.signatures->block : std::nullopt);
      !result) {
    return result;
  }
  const std::size_t unit = wqe::bytes_of(selector_of(after.encryption->data_unit));
  if (limits.encrypts_single_block && after.length_bytes > unit) {
    return fail(EINVAL, fmt::format("mkey: {} bytes, but this device encrypts keys of one data unit, {} bytes, only",
                                    after.length_bytes, unit));
  }
  return {};
}

// Checks everything and makes the state that the key will have.
Expected<Layout> change_state(const MkeyChange& change, const MkeyLimits& limits, const MkeyState& before,
                              MkeyState& after) {
  if (change.tag) {
    after.key = (before.key & ~std::uint32_t{0xff}) | *change.tag;
  }
  if ((after.key & 0xff) != 0 && !limits.key_tags) {
    return fail(EOPNOTSUPP, fmt::format("mkey: key {:#x} has a tag, which this device cannot change", after.key));
  }
  if (change.access && (change.access->bits() & ~kSettableAccess) != 0) {
    return fail(EINVAL, fmt::format("mkey: access {:#x} has flags beyond local write, remote write, read and atomic",
                                    change.access->bits()));
  }
  auto layout = check_layout(change, limits, before);
  if (!layout) {
    return layout;
  }
  if (change.layout.index() != 0) {
    after.length_bytes = layout->length_bytes;
  }
  if (auto result = change_formats(change, limits, before, after); !result) {
    return std::unexpected(std::move(result.error()));
  }
  return layout;
}

// What the UMR WQE consists of.
struct Plan {
  Layout layout;
  bool signature_format = false, crypto_format = false;
  bool formats_off = false;  // the key loses its format
  bool set_psvs = false;
  bool consume_errors = false;

  std::size_t format_bytes() const {
    return (signature_format ? wqe::SignatureBsf::kBytes : 0) + (crypto_format ? wqe::CryptoBsf::kBytes : 0);
  }
  std::size_t data_bytes() const { return layout.padded_bytes() + format_bytes(); }
};

Plan make_plan(const MkeyChange& change, const Layout& layout, const MkeyState& before, const MkeyState& after) {
  Plan plan{.layout = layout};
  // With encryption both formats are written when one of them changes.
  const bool formats_change =
      change.signature.has_value() ||
      (before.encrypts && (change.encryption.has_value() || (change.forget_signature && before.signatures)));
  plan.signature_format = formats_change && after.signatures.has_value();
  plan.crypto_format = formats_change && after.encryption.has_value();
  plan.formats_off =
      plan.format_bytes() == 0 && !before.encrypts && after.signatures.has_value() && !after.signatures->block;
  plan.consume_errors = after.signatures.has_value() && after.signatures->errors_to_consume;
  plan.set_psvs = plan.consume_errors ? after.signatures->block.has_value() : change.signature.has_value();
  return plan;
}

Expected<void> check_room(const Plan& plan, const MkeyLimits& limits, const MkeyState& after) {
  if (plan.format_bytes() == 0) {
    return {};  // check_layout() has
  }
  const std::size_t room = limits.max_inline_bytes + wqe::InlineHeader::kBytes;
  if (plan.data_bytes() > room) {
    return fail(ENOMEM, fmt::format("mkey: layout and formats take {} bytes; the send queue has room for {}",
                                    plan.data_bytes(), room));
  }
  if (after.length_bytes > std::numeric_limits<std::uint32_t>::max()) {
    return fail(EINVAL, fmt::format("mkey: {} bytes; at most 4294967295 with signatures or encryption (width of the "
                                    "format's length)",
                                    after.length_bytes));
  }
  return {};
}

wqe::UmrControlSegment control_segment(const MkeyChange& change, const Plan& plan) {
  namespace mask = wqe::mkey_mask;
  wqe::UmrControlSegment control{.inline_translations = true, .mkey_mask = mask::kFree | mask::kMkey};
  if (change.access) {
    control.mkey_mask |= mask::kLocalWrite | mask::kRemoteRead | mask::kRemoteWrite | mask::kAtomic;
  }
  if (change.layout.index() != 0) {
    control.mkey_mask |= mask::kLength;
    control.klm_octowords = static_cast<std::uint16_t>(plan.layout.padded_bytes() / wqe::kOctowordBytes);
  }
  if (plan.format_bytes() != 0 || plan.formats_off) {
    control.mkey_mask |= mask::kBsfEnable;
    control.bsf_octowords_or_offset = static_cast<std::uint16_t>(plan.format_bytes() / wqe::kOctowordBytes);
  }
  if (plan.consume_errors) {
    control.mkey_mask |= mask::kSignatureError;
  }
  return control;
}

wqe::MkeyContextSegment context_segment(const MkeyChange& change, const Plan& plan, const MkeyState& after) {
  wqe::MkeyContextSegment context{.qpn = kAnyQp, .key_tag = static_cast<std::uint8_t>(after.key)};
  if (change.access) {
    context.access_local_write = change.access->has(Access::kLocalWrite);
    context.access_remote_read = change.access->has(Access::kRemoteRead);
    context.access_remote_write = change.access->has(Access::kRemoteWrite);
    context.access_atomic = change.access->has(Access::kRemoteAtomic);
  }
  if (change.layout.index() != 0) {
    context.length_bytes = plan.layout.length_bytes;
  }
  context.bsf_enable = plan.format_bytes() != 0;
  context.signature_error_parity = plan.consume_errors && (after.signatures->errors & 1) != 0;
  return context;
}

}  // namespace

Expected<void> build_mkey_wqes(const MkeyChange& change, const MkeyLimits& limits, MkeyState& state, MkeyWqes& wqes) {
  MkeyState after = state;
  const auto layout = change_state(change, limits, state, after);
  if (!layout) {
    return std::unexpected(layout.error());
  }
  const Plan plan = make_plan(change, *layout, state, after);
  if (auto result = check_room(plan, limits, after); !result) {
    return result;
  }
  wqes.umr_bytes = kHeadBytes + plan.data_bytes();
  if (wqes.umr_bytes > wqes.umr.size()) {
    return fail(ENOMEM, fmt::format("mkey: a work request of {} bytes; at most {}", wqes.umr_bytes, wqes.umr.size()));
  }
  std::byte* at = wqes.umr.data();
  std::fill_n(at, wqes.umr_bytes, std::byte{0});
  wqe::store(at, control_segment(change, plan));
  wqe::store(at + wqe::UmrControlSegment::kBytes, context_segment(change, plan, after));
  put_layout(change, at + kHeadBytes);
  at += kHeadBytes + plan.layout.padded_bytes();
  if (plan.signature_format) {
    wqe::store(at, signature_bsf(*after.signatures, plan.crypto_format));
    at += wqe::SignatureBsf::kBytes;
  }
  if (plan.crypto_format) {
    wqe::store(at, crypto_bsf(*after.encryption, plan.signature_format, limits.big_endian_tweak));
  }
  wqes.psv_count = 0;
  if (plan.set_psvs) {
    put_psvs(*after.signatures, wqes);
  }
  if (plan.consume_errors) {
    after.signatures->errors_to_consume = false;
  }
  state = after;
  return {};
}

}  // namespace umlx5
