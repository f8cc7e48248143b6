// The queue segment of cross-channel WQEs: WAIT for a CQ, SEND_EN and RECV_EN for a queue; DS is 2.
// Source: DPDK mlx5_prm.h; not in mlx5dv.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

struct QueueSegment {
  std::uint32_t max_index{};     // producer index to wait for, or to enable up to
  std::uint32_t queue_number{};  // CQN for WAIT, QPN for SEND_EN and RECV_EN

  static constexpr std::string_view kName = "queue";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"max_index", &QueueSegment::max_index, bytes(8, 4), Format::kDecimal},
                                         Field{"number", &QueueSegment::queue_number, bytes(12, 4)}};
};
static_assert(layout_is_valid<QueueSegment>());

}  // namespace umlx5::wqe
