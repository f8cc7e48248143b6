// Names of mlx5dv's enumerations for the native API, which does not include <infiniband/mlx5dv.h>, with what newer
// versions of that header added. Values: mlx5dv.h of rdma-core v65.
#pragma once

#include <cstdint>

namespace umlx5::dv {

// enum mlx5dv_qp_create_flags
inline constexpr std::uint32_t kTunnelOffloads = 1 << 0;
inline constexpr std::uint32_t kSelfLoopbackUnicast = 1 << 1;
inline constexpr std::uint32_t kSelfLoopbackMulticast = 1 << 2;
inline constexpr std::uint32_t kDisableScatterToCqe = 1 << 3;
inline constexpr std::uint32_t kAllowScatterToCqe = 1 << 4;
inline constexpr std::uint32_t kPacketBasedCredit = 1 << 5;
inline constexpr std::uint32_t kSignaturePipelining = 1 << 6;
inline constexpr std::uint32_t kOutOfOrderPlacement = 1 << 7;  // not in mlx5dv.h of v44
inline constexpr std::uint32_t kAllCreateFlags = (1 << 8) - 1;

}  // namespace umlx5::dv
