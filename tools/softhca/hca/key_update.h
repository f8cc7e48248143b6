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
  std::vector<std::byte> formats;  // BSFs
};

// Which value a SET_PSV work request gives a running value.
struct PsvUpdate {
  std::uint32_t psv = 0;
  std::uint64_t value = 0;
};
// None if the segment is cut off.
std::optional<PsvUpdate> parse_psv_update(std::span<const std::byte> body);

// Takes the body of a UMR WQE (all after its control segment) apart. None if a segment is cut off, or the translations
// are not in the WQE itself: this device takes page lists with CREATE_MKEY.
std::optional<KeyUpdate> parse_key_update(std::uint32_t key, std::span<const std::byte> body);

}  // namespace softhca::hca
