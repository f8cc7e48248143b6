// Multicast groups: ATTACH_TO_MCG and DETACH_FROM_MCG.
//
// Layouts: attach_to_mcg_in and detach_from_mcg_in of <linux/mlx5/mlx5_ifc.h>.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"
#include "wqe/prm/command.h"

namespace umlx5::wqe::prm {

// Input of both (output: ObjectOut, empty).
struct McgIn {
  InputHeader header{};
  std::uint32_t qpn{};
  std::array<std::uint8_t, 16> multicast_gid{};
  static constexpr std::string_view kName = "mcg_in";
  static constexpr std::size_t kBytes = 32;
  static constexpr auto kFields =
      Fields{Field{"header", &McgIn::header, bytes(0x0, 8)}, Field{"qpn", &McgIn::qpn, bits(0x8, 23, 0)},
             Field{"multicast_gid", &McgIn::multicast_gid, bytes(0x10, 16)}};
};
static_assert(layout_is_valid<McgIn>());
static_assert(offset_bits_of(&McgIn::multicast_gid) == 0x10 * 8);

}  // namespace umlx5::wqe::prm
