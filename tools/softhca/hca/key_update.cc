#include "tools/softhca/hca/key_update.h"

#include "wqe/psv.h"
#include "wqe/units.h"

namespace softhca::hca {

using umlx5::wqe::MkeyContextSegment;
using umlx5::wqe::UmrControlSegment;

std::optional<KeyUpdate> parse_key_update(std::uint32_t key, std::span<const std::byte> body) {
  constexpr std::size_t kFixedBytes = UmrControlSegment::kBytes + MkeyContextSegment::kBytes;
  if (body.size() < kFixedBytes) {
    return std::nullopt;
  }
  KeyUpdate update{.key = key,
                   .control = umlx5::wqe::load<UmrControlSegment>(body.data()),
                   .context = umlx5::wqe::load<MkeyContextSegment>(body.data() + UmrControlSegment::kBytes),
                   .translations = {},
                   .formats = {}};
  const std::size_t bytes = update.control.klm_octowords * umlx5::wqe::kOctowordBytes;
  const std::size_t format_bytes =
      update.control.has_translation_offset ? 0 : update.control.bsf_octowords_or_offset * umlx5::wqe::kOctowordBytes;
  const std::span<const std::byte> rest = body.subspan(kFixedBytes);
  if (bytes + format_bytes == 0) {
    return update;
  }
  // An offset into the key's translations other than 0 would change a part of them.
  const bool at_start = !update.control.has_translation_offset || update.control.bsf_octowords_or_offset == 0;
  if (!update.control.inline_translations || !at_start || bytes + format_bytes > rest.size()) {
    return std::nullopt;
  }
  const auto translations = rest.first(bytes), formats = rest.subspan(bytes, format_bytes);
  update.translations.assign(translations.begin(), translations.end());
  update.formats.assign(formats.begin(), formats.end());
  return update;
}

std::optional<PsvUpdate> parse_psv_update(std::span<const std::byte> body) {
  if (body.size() < umlx5::wqe::SetPsvSegment::kBytes) {
    return std::nullopt;
  }
  const auto segment = umlx5::wqe::load<umlx5::wqe::SetPsvSegment>(body.data());
  return PsvUpdate{segment.psv_index & 0xffffff, segment.transient_signature};
}

}  // namespace softhca::hca
