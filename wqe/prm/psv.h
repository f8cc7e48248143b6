// Protection state variables, the running values of signatures: CREATE_PSV. DESTROY_PSV takes an ObjectIn.
//
// Layouts: create_psv_in, create_psv_out of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

inline constexpr unsigned kMaxPsvsPerCommand = 4;

struct CreatePsvIn {
  InputHeader header{};
  std::uint8_t num_psv{};  // 1 to kMaxPsvsPerCommand
  std::uint32_t pd{};
  static constexpr std::string_view kName = "create_psv_in";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"header", &CreatePsvIn::header, bytes(0x0, 8)},
                                         Field{"num_psv", &CreatePsvIn::num_psv, bits(0x8, 31, 28), Format::kDecimal},
                                         Field{"pd", &CreatePsvIn::pd, bits(0x8, 23, 0)}};
};
static_assert(layout_is_valid<CreatePsvIn>());

struct CreatePsvOut {
  OutputHeader header{};
  std::uint32_t psv0_index{}, psv1_index{}, psv2_index{}, psv3_index{};
  static constexpr std::string_view kName = "create_psv_out";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields = Fields{Field{"header", &CreatePsvOut::header, bytes(0x0, 8)},
                                         Field{"psv0_index", &CreatePsvOut::psv0_index, bits(0x10, 23, 0)},
                                         Field{"psv1_index", &CreatePsvOut::psv1_index, bits(0x14, 23, 0)},
                                         Field{"psv2_index", &CreatePsvOut::psv2_index, bits(0x18, 23, 0)},
                                         Field{"psv3_index", &CreatePsvOut::psv3_index, bits(0x1c, 23, 0)}};
};
static_assert(layout_is_valid<CreatePsvOut>());
static_assert(offset_bits_of(&CreatePsvOut::psv0_index) == 0x10 * 8 + 8);

}  // namespace umlx5::wqe::prm
