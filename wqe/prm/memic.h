// Memory on the device: ALLOC_MEMIC and DEALLOC_MEMIC.
//
// Layouts: alloc_memic_in/out and dealloc_memic_in of <linux/mlx5/mlx5_ifc.h>. Addresses are offsets into the BAR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

struct AllocMemicIn {
  InputHeader header{};
  std::uint8_t log_memic_addr_alignment{};  // of 64 bytes
  std::uint64_t range_start_addr{};         // where to look for free memory, and how far
  std::uint32_t range_size{};
  std::uint32_t memic_size{};
  static constexpr std::string_view kName = "alloc_memic_in";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields = Fields{
      Field{"header", &AllocMemicIn::header, bytes(0x0, 8)},
      Field{"log_memic_addr_alignment", &AllocMemicIn::log_memic_addr_alignment, bits(0xc, 7, 0), Format::kDecimal},
      Field{"range_start_addr", &AllocMemicIn::range_start_addr, bytes(0x10, 8)},
      Field{"range_size", &AllocMemicIn::range_size, bytes(0x18, 4), Format::kDecimal},
      Field{"memic_size", &AllocMemicIn::memic_size, bytes(0x1c, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<AllocMemicIn>());
static_assert(offset_bits_of(&AllocMemicIn::range_start_addr) == 0x10 * 8);
static_assert(offset_bits_of(&AllocMemicIn::memic_size) == 0x1c * 8);

struct AllocMemicOut {
  OutputHeader header{};
  std::uint64_t memic_start_addr{};
  static constexpr std::string_view kName = "alloc_memic_out";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"header", &AllocMemicOut::header, bytes(0x0, 8)},
                                         Field{"memic_start_addr", &AllocMemicOut::memic_start_addr, bytes(0x8, 8)}};
};
static_assert(layout_is_valid<AllocMemicOut>());

// Input of DEALLOC_MEMIC (output: ObjectOut, empty).
struct DeallocMemicIn {
  InputHeader header{};
  std::uint64_t memic_start_addr{};
  std::uint32_t memic_size{};
  static constexpr std::string_view kName = "dealloc_memic_in";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields =
      Fields{Field{"header", &DeallocMemicIn::header, bytes(0x0, 8)},
             Field{"memic_start_addr", &DeallocMemicIn::memic_start_addr, bytes(0x10, 8)},
             Field{"memic_size", &DeallocMemicIn::memic_size, bytes(0x18, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<DeallocMemicIn>());
static_assert(offset_bits_of(&DeallocMemicIn::memic_start_addr) == 0x10 * 8);

}  // namespace umlx5::wqe::prm
