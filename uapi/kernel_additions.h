// What newer kernels added to <rdma/*.h>. The names are our own, so that nothing clashes when the installed headers
// catch up. All integers are in host order. Structures only grow at the end: what a kernel does not know stays zero.
#pragma once

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cstddef>
#include <cstdint>

namespace umlx5::uapi {

// Driver part of the QUERY_DEVICE response (struct mlx5_ib_query_device_resp of newer kernels).
struct Mlx5QueryDeviceResponse {
  mlx5_ib_query_device_resp base;
  std::uint32_t reg_c0_value;
  std::uint32_t reg_c0_mask;
};
static_assert(sizeof(Mlx5QueryDeviceResponse) == 112);
static_assert(offsetof(Mlx5QueryDeviceResponse, reg_c0_value) == 104);
static_assert(offsetof(Mlx5QueryDeviceResponse, reg_c0_mask) == 108);

// Bit of mlx5_ib_query_device_resp.flags: out-of-order data placement is available.
inline constexpr std::uint32_t kMlx5QueryDeviceOutOfOrderPlacement = 1U << 4;

// Response of the QUERY_PORT method (struct ib_uverbs_query_port_resp_ex of newer kernels).
struct QueryPortResponse {
  ib_uverbs_query_port_resp base;
  std::uint16_t port_capability_flags2;
  std::uint8_t reserved[2];
  std::uint32_t active_speed_extended;
};
static_assert(sizeof(QueryPortResponse) == 48);
static_assert(offsetof(QueryPortResponse, port_capability_flags2) == 40);
static_assert(offsetof(QueryPortResponse, active_speed_extended) == 44);

// Bit of mlx5_ib_modify_qp.comp_mask: enable out-of-order data placement.
inline constexpr std::uint32_t kMlx5ModifyQpOutOfOrderPlacement = 1U << 0;

// Driver attribute of the REG_DMABUF_MR method and its one flag.
inline constexpr std::uint16_t kMlx5RegDmabufMrAccessFlags = 0x1000;
inline constexpr std::uint32_t kMlx5RegDmabufMrDataDirect = 1U << 0;

}  // namespace umlx5::uapi
