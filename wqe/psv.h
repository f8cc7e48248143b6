// SET_PSV: gives a protection state variable, a signature's running value, its start.
// Source: rdma-core providers/mlx5/wqe.h struct mlx5_wqe_set_psv_seg.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

struct SetPsvSegment {
  std::uint32_t psv_index{};
  std::uint16_t syndrome{};
  std::uint64_t
      transient_signature{};  // T10-DIF: guard, application tag, reference tag; CRC32 in the upper half; CRC64

  static constexpr std::string_view kName = "set-psv";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"psv", &SetPsvSegment::psv_index, bytes(0, 4)},
                                         Field{"syndrome", &SetPsvSegment::syndrome, bytes(4, 2)},
                                         Field{"signature", &SetPsvSegment::transient_signature, bytes(8, 8)}};
};
static_assert(layout_is_valid<SetPsvSegment>());
static_assert(offset_bits_of(&SetPsvSegment::transient_signature) == 64);

}  // namespace umlx5::wqe
