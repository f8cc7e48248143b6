// The remote address of RDMA and atomic operations. Source: mlx5dv.h struct mlx5_wqe_raddr_seg.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

struct RemoteAddressSegment {
  std::uint64_t address{};
  std::uint32_t rkey{};

  static constexpr std::string_view kName = "raddr";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"address", &RemoteAddressSegment::address, bytes(0, 8)},
                                         Field{"rkey", &RemoteAddressSegment::rkey, bytes(8, 4)}};
};
static_assert(layout_is_valid<RemoteAddressSegment>());
static_assert(offset_bits_of(&RemoteAddressSegment::rkey) == 64);

}  // namespace umlx5::wqe
