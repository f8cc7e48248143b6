#include "tools/softhca/hca/key_update.h"

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
                   .translations = {}};
  const std::size_t bytes = update.control.klm_octowords * umlx5::wqe::kOctowordBytes;
  const std::span<const std::byte> rest = body.subspan(kFixedBytes);
  if (bytes == 0) {
    return update;
  }
  // An offset into the key's translations other than 0 would change a part of them.
  const bool at_start = !update.control.has_translation_offset || update.control.bsf_octowords_or_offset == 0;
  if (!update.control.inline_translations || !at_start || bytes > rest.size()) {
    return std::nullopt;
  }
  update.translations.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(bytes));
  return update;
}

}  // namespace softhca::hca
