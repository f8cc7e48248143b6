// Registered user memory (umem), in which objects that programs make themselves lie: CREATE_UMEM. Output is ObjectOut
// with the umem's number, DESTROY_UMEM takes ObjectIn with it.
//
// Layouts: create_umem_in and umem of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// The list of pages follows: 8 bytes each, an address with kMttRead and kMttWrite in its low bits (mkey.h).
struct CreateUmemIn {
  InputHeader header{};
  bool ats{};
  std::uint8_t log_page_size{};  // of 4096 bytes
  std::uint32_t page_offset{};   // where the umem starts in its first page
  std::uint64_t num_of_mtt{};
  static constexpr std::string_view kName = "create_umem_in";
  static constexpr std::size_t kBytes = 0x30;
  static constexpr auto kFields = Fields{
      Field{"header", &CreateUmemIn::header, bytes(0x0, 8)}, Field{"ats", &CreateUmemIn::ats, bits(0x20, 31, 31)},
      Field{"log_page_size", &CreateUmemIn::log_page_size, bits(0x20, 4, 0), Format::kDecimal},
      Field{"page_offset", &CreateUmemIn::page_offset, bytes(0x24, 4)},
      Field{"num_of_mtt", &CreateUmemIn::num_of_mtt, bytes(0x28, 8), Format::kDecimal}};
};
static_assert(layout_is_valid<CreateUmemIn>());
static_assert(offset_bits_of(&CreateUmemIn::num_of_mtt) == 0x28 * 8);

inline constexpr std::size_t kUmemPagesOffset = CreateUmemIn::kBytes;

}  // namespace umlx5::wqe::prm
