// CREATE_MKEY, QUERY_MKEY, DESTROY_MKEY.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "tools/softhca/hca/command.h"
#include "wqe/prm/mkey.h"

namespace softhca::hca {

namespace prm = umlx5::wqe::prm;
using prm::MkeyMode;

namespace {

constexpr std::size_t kOctowordBytes = 16, kMttBytes = 8;
constexpr std::uint8_t kLogMinPageBytes = 12, kLogMaxPageBytes = 47;
constexpr std::uint32_t kMaxFormatOctowords = 8;  // of signatures and encryption, 64 bytes each

MkeyMode mode_of(const prm::MkeyContext& context) {
  return static_cast<MkeyMode>(context.access_mode_4_2 << 2 | context.access_mode_1_0);
}

// What does not depend on the page list. KSM keys are refused by name.
Refusal check(const Device& device, const Request& request, const prm::CreateMkeyIn& in) {
  const prm::MkeyContext& context = in.mkey;
  const MkeyMode mode = mode_of(context);
  if (mode != MkeyMode::kPa && mode != MkeyMode::kMtt && mode != MkeyMode::kKlm && mode != MkeyMode::kMemic) {
    return bad_parameter(Syndrome::kMkeyMode);
  }
  if (mode == MkeyMode::kPa && request.header.uid != 0) {
    return bad_parameter(Syndrome::kMkeyPhysicalByUser);
  }
  if (in.mkey_umem_valid && mode != MkeyMode::kMtt) {
    return bad_parameter(Syndrome::kMkeyMode);
  }
  const bool has_formats = context.bsf_en || context.bsf_octword_size != 0;
  if (has_formats && (mode != MkeyMode::kKlm || context.bsf_octword_size == 0 ||
                      context.bsf_octword_size > kMaxFormatOctowords || !context.umr_en)) {
    return bad_parameter(Syndrome::kMkeyBsf);
  }
  if (context.crypto_en != 0 && !has_formats) {
    return bad_parameter(Syndrome::kMkeyEncryption);
  }
  if (context.length64) {
    return mode == MkeyMode::kPa ? Refusal{} : bad_parameter(Syndrome::kMkeyLength);
  }
  if (context.len > std::uint64_t{1} << device.profile.log_max_region_bytes ||
      (context.len == 0 && !context.free && mode != MkeyMode::kMemic)) {
    return bad_parameter(Syndrome::kMkeyLength);
  }
  if (mode == MkeyMode::kMemic && !device.memic.contains(context.start_addr, context.len)) {
    return bad_parameter(Syndrome::kMkeyMemic);
  }
  if (context.len != 0 && context.len - 1 > std::numeric_limits<std::uint64_t>::max() - context.start_addr) {
    return bad_parameter(Syndrome::kMkeyAddressWraps);
  }
  return {};
}

Refusal take_translations(Device& device, const Request& request, const prm::CreateMkeyIn& in, Mkey& mkey) {
  const prm::MkeyContext& context = in.mkey;
  if (context.log_page_size < kLogMinPageBytes || context.log_page_size > kLogMaxPageBytes) {
    return bad_parameter(Syndrome::kPageSize);
  }
  if (in.mkey_umem_valid) {
    mkey.log_page_bytes = context.log_page_size;
    const std::uint64_t in_page = context.start_addr & ((std::uint64_t{1} << mkey.log_page_bytes) - 1);
    return take_umem_pages(device, request, in.mkey_umem_id, in.mkey_umem_offset,
                           {.log_page_bytes = mkey.log_page_bytes,
                            .offset_bytes = in_page,
                            .bytes = context.len,
                            .writable = context.lw || context.rw || context.a},
                           mkey.pages, mkey.umem);
  }
  if (context.translations_octword_size < in.translations_octword_actual_size) {
    return bad_parameter(Syndrome::kMkeyTranslations);
  }
  if ((request.in.size() - prm::kPageAddressOffset) / kOctowordBytes < in.translations_octword_actual_size) {
    return {prm::Status::kBadInputLength, Syndrome::kPageListTooShort};
  }
  mkey.log_page_bytes = context.log_page_size;
  const std::uint64_t page_bytes = std::uint64_t{1} << mkey.log_page_bytes;
  const std::uint64_t span_bytes = (context.start_addr & (page_bytes - 1)) + context.len;
  const std::uint64_t pages = (span_bytes + page_bytes - 1) >> mkey.log_page_bytes;
  const std::uint64_t given = std::uint64_t{in.translations_octword_actual_size} * (kOctowordBytes / kMttBytes);
  if (given < pages && !context.free) {
    return bad_parameter(Syndrome::kMkeyTooFewPages);
  }
  mkey.pages.resize(std::min(given, pages));
  for (std::size_t i = 0; i < mkey.pages.size(); ++i) {
    const std::uint64_t entry =
        umlx5::wqe::internal::load_word<std::uint64_t>(request.in.data() + prm::kPageAddressOffset + i * kMttBytes);
    mkey.pages[i] = entry & ~std::uint64_t{0xfff};  // flags are below
    if (mkey.pages[i] % page_bytes != 0) {
      return bad_parameter(Syndrome::kPageMisaligned);
    }
  }
  return {};
}

Refusal take_key_list(const Request& request, const prm::CreateMkeyIn& in, Mkey& mkey) {
  mkey.translation = MkeyTranslation::kKeys;
  const std::size_t bytes = in.translations_octword_actual_size * kOctowordBytes;
  if (request.in.size() - prm::kPageAddressOffset < bytes) {
    return {prm::Status::kBadInputLength, Syndrome::kPageListTooShort};
  }
  return hca::take_key_list(request.in.subspan(prm::kPageAddressOffset, bytes), mkey)
             ? Refusal{}
             : bad_parameter(Syndrome::kMkeyTranslations);
}

Refusal take_memory(Device& device, const Request& request, const prm::CreateMkeyIn& in, Mkey& mkey) {
  switch (mode_of(in.mkey)) {
    case MkeyMode::kPa:
      mkey.translation = MkeyTranslation::kPhysical;
      return {};
    case MkeyMode::kMemic:
      // Its start is a place on the device, to which addresses are relative.
      mkey.translation = MkeyTranslation::kPhysical;
      mkey.base = kBarAddress + std::exchange(mkey.start, 0);
      return {};
    case MkeyMode::kKlm:
      return take_key_list(request, in, mkey);
    default:
      return take_translations(device, request, in, mkey);
  }
}

}  // namespace

Refusal create_mkey(Device& device, const Request& request) {
  const auto in = request.as<prm::CreateMkeyIn>();
  if (const Refusal refusal = check(device, request, in)) {
    return refusal;
  }
  Domain* pd = nullptr;
  if (const Refusal refusal = find(request, device.pds, in.mkey.pd, Syndrome::kNoSuchPd, pd)) {
    return refusal;
  }
  auto mkey = std::make_unique<Mkey>();
  mkey->uid = request.header.uid;
  mkey->pdn = in.mkey.pd;
  mkey->tag = in.mkey.mkey_7_0;
  mkey->free = in.mkey.free;
  mkey->remote_invalidate = in.mkey.en_rinval;
  mkey->umr_enabled = in.mkey.umr_en;
  mkey->qpn = in.mkey.qpn;
  mkey->max_octowords = in.mkey.translations_octword_size;
  mkey->local_read = in.mkey.lr;
  mkey->local_write = in.mkey.lw;
  mkey->remote_read = in.mkey.rr;
  mkey->remote_write = in.mkey.rw;
  mkey->remote_atomic = in.mkey.a;
  mkey->whole_address_space = in.mkey.length64;
  mkey->start = in.mkey.start_addr;
  mkey->length_bytes = in.mkey.len;
  if (const Refusal refusal = take_memory(device, request, in, *mkey)) {
    return refusal;
  }
  if (in.mkey.bsf_octword_size != 0) {
    mkey->protection = KeyProtection{
        .max_octowords = in.mkey.bsf_octword_size, .must_encrypt = in.mkey.crypto_en != 0, .format = std::nullopt};
  }
  Mkey* const created = mkey.get();
  std::uint32_t index = in.mkey_index;
  if (index != 0 && !device.mkeys.insert_at(mkey, index)) {
    return bad_index(Syndrome::kMkeyByName);
  }
  if (index == 0 && !device.mkeys.insert(mkey, index)) {
    return no_resources();
  }
  created->index = index;
  ++pd->users;
  request.reply_number(index);
  return {};
}

Refusal query_mkey(Device& device, const Request& request) {
  Mkey* mkey = nullptr;
  if (const Refusal refusal = find(request, device.mkeys, request.number(), Syndrome::kNoSuchMkey, mkey)) {
    return refusal;
  }
  prm::QueryMkeyOut out;
  out.mkey.free = mkey->free;
  out.mkey.en_rinval = mkey->remote_invalidate;
  out.mkey.lr = mkey->local_read;
  out.mkey.lw = mkey->local_write;
  out.mkey.rr = mkey->remote_read;
  out.mkey.rw = mkey->remote_write;
  out.mkey.a = mkey->remote_atomic;
  out.mkey.umr_en = mkey->umr_enabled;
  out.mkey.qpn = mkey->qpn;
  out.mkey.mkey_7_0 = mkey->tag;
  out.mkey.pd = mkey->pdn;
  out.mkey.length64 = mkey->whole_address_space;
  out.mkey.start_addr = mkey->start;
  out.mkey.len = mkey->length_bytes;
  if (mkey->translation == MkeyTranslation::kPages) {
    out.mkey.access_mode_1_0 = static_cast<std::uint8_t>(MkeyMode::kMtt);
    out.mkey.log_page_size = mkey->log_page_bytes;
    out.mkey.translations_octword_size = static_cast<std::uint32_t>((mkey->pages.size() + 1) / 2);
  } else if (mkey->base != 0) {
    out.mkey.access_mode_1_0 = static_cast<std::uint8_t>(MkeyMode::kMemic) & 3;
    out.mkey.access_mode_4_2 = static_cast<std::uint8_t>(MkeyMode::kMemic) >> 2;
    out.mkey.start_addr = mkey->base - kBarAddress;
  } else if (mkey->translation == MkeyTranslation::kKeys) {
    out.mkey.access_mode_1_0 = static_cast<std::uint8_t>(MkeyMode::kKlm);
    out.mkey.translations_octword_size = mkey->max_octowords;
  }
  if (mkey->protection) {
    out.mkey.bsf_en = mkey->protection->format.has_value();
    out.mkey.bsf_octword_size = mkey->protection->max_octowords;
    out.mkey.crypto_en = mkey->protection->must_encrypt ? 1 : 0;
    out.mkey.expected_sigerr_count = (mkey->protection->errors & 1) != 0;
  }
  request.reply(out);
  return {};
}

Refusal destroy_mkey(Device& device, const Request& request) {
  Mkey* mkey = nullptr;
  if (const Refusal refusal = find(request, device.mkeys, request.number(), Syndrome::kNoSuchMkey, mkey)) {
    return refusal;
  }
  --device.pds.find(mkey->pdn)->users;
  device.mkeys.erase(request.number());
  return {};
}

}  // namespace softhca::hca
