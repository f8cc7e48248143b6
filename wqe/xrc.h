// The XRC segment: which shared receive queue takes the message. Source: rdma-core providers/mlx5/wqe.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wqe/layout.h"

namespace umlx5::wqe {

struct XrcSegment {
  std::uint32_t srqn{};  // 24 bits used; the remote side's SRQ number

  static constexpr std::string_view kName = "xrc";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields = Fields{Field{"srqn", &XrcSegment::srqn, bytes(0, 4)}};
};
static_assert(layout_is_valid<XrcSegment>());

}  // namespace umlx5::wqe
