// Operands of atomic operations, placed between the remote address and the one data segment that takes the old value.
//
// Plain compare-and-swap and fetch-and-add work on 8 bytes, opmod 0. The masked ("extended") opcodes carry the operand
// size in the control segment's opmod: 8 for 4 bytes, 9 for 8 bytes, and their operands have one layout for each.
// Source: mlx5dv.h struct mlx5_wqe_atomic_seg; masked forms: UCX ib_mlx5.h (uct_ib_mlx5_atomic_masked_*_seg).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

inline constexpr std::uint8_t kMaskedAtomicOpmod4Bytes = 8;
inline constexpr std::uint8_t kMaskedAtomicOpmod8Bytes = 9;

struct AtomicSegment {
  std::uint64_t swap_add{};  // value to add, or to swap in
  std::uint64_t compare{};   // zero for fetch-and-add

  static constexpr std::string_view kName = "atomic";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"swap_add", &AtomicSegment::swap_add, bytes(0, 8)},
                                         Field{"compare", &AtomicSegment::compare, bytes(8, 8)}};
};
static_assert(layout_is_valid<AtomicSegment>());
static_assert(offset_bits_of(&AtomicSegment::compare) == 64);

struct MaskedCompareSwap8Segment {
  std::uint64_t swap{};
  std::uint64_t compare{};
  std::uint64_t swap_mask{};
  std::uint64_t compare_mask{};

  static constexpr std::string_view kName = "masked-cs-8";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields = Fields{Field{"swap", &MaskedCompareSwap8Segment::swap, bytes(0, 8)},
                                         Field{"compare", &MaskedCompareSwap8Segment::compare, bytes(8, 8)},
                                         Field{"swap_mask", &MaskedCompareSwap8Segment::swap_mask, bytes(16, 8)},
                                         Field{"compare_mask", &MaskedCompareSwap8Segment::compare_mask, bytes(24, 8)}};
};
static_assert(layout_is_valid<MaskedCompareSwap8Segment>());
static_assert(offset_bits_of(&MaskedCompareSwap8Segment::compare_mask) == 192);

struct MaskedCompareSwap4Segment {
  std::uint32_t swap{};
  std::uint32_t compare{};
  std::uint32_t swap_mask{};
  std::uint32_t compare_mask{};

  static constexpr std::string_view kName = "masked-cs-4";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"swap", &MaskedCompareSwap4Segment::swap, bytes(0, 4)},
                                         Field{"compare", &MaskedCompareSwap4Segment::compare, bytes(4, 4)},
                                         Field{"swap_mask", &MaskedCompareSwap4Segment::swap_mask, bytes(8, 4)},
                                         Field{"compare_mask", &MaskedCompareSwap4Segment::compare_mask, bytes(12, 4)}};
};
static_assert(layout_is_valid<MaskedCompareSwap4Segment>());

// A set bit of `field_boundary` is the last bit into which no carry goes on: the operand is several independent sums.
struct MaskedFetchAdd8Segment {
  std::uint64_t add{};
  std::uint64_t field_boundary{};

  static constexpr std::string_view kName = "masked-fa-8";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"add", &MaskedFetchAdd8Segment::add, bytes(0, 8)},
                                         Field{"field_boundary", &MaskedFetchAdd8Segment::field_boundary, bytes(8, 8)}};
};
static_assert(layout_is_valid<MaskedFetchAdd8Segment>());

struct MaskedFetchAdd4Segment {
  std::uint32_t add{};
  std::uint32_t field_boundary{};

  static constexpr std::string_view kName = "masked-fa-4";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"add", &MaskedFetchAdd4Segment::add, bytes(0, 4)},
                                         Field{"field_boundary", &MaskedFetchAdd4Segment::field_boundary, bytes(4, 4)}};
};
static_assert(layout_is_valid<MaskedFetchAdd4Segment>());

}  // namespace umlx5::wqe
