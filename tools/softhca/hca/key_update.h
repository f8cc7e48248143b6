// What a UMR work request asks of a memory key, taken out of its WQE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wqe/umr.h"

namespace softhca::hca {

struct KeyUpdate {
  std::uint32_t key = 0;
  umlx5::wqe::UmrControlSegment control;
  umlx5::wqe::MkeyContextSegment context;
  // KLM entries, or a repeat block and its entries, as they lie in the WQE.
  std::vector<std::byte> translations;
};

// Takes the body of a UMR WQE (all after its control segment) apart. None if a segment is cut off, or the translations
// are not in the WQE itself: this device takes page lists with CREATE_MKEY.
std::optional<KeyUpdate> parse_key_update(std::uint32_t key, std::span<const std::byte> body);

}  // namespace softhca::hca
