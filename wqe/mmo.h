// The DMA copy WQE (opcode MMO): control, this segment, a source and a destination data segment; one WQEBB.
// Source: rdma-core providers/mlx5/wqe.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

inline constexpr std::uint8_t kMmoOpmodDma = 1;

struct MmoMetadataSegment {
  std::uint32_t control{};
  std::uint32_t opaque_lkey{};  // of the buffer that takes the status of the copy
  std::uint64_t opaque_address{};

  static constexpr std::string_view kName = "mmo";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"control", &MmoMetadataSegment::control, bytes(0, 4)},
                                         Field{"opaque_lkey", &MmoMetadataSegment::opaque_lkey, bytes(4, 4)},
                                         Field{"opaque_address", &MmoMetadataSegment::opaque_address, bytes(8, 8)}};
};
static_assert(layout_is_valid<MmoMetadataSegment>());

}  // namespace umlx5::wqe
