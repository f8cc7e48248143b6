// Shared receive queues.
#pragma once

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cstdint>
#include <optional>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

struct SrqRequest {
  std::uint32_t type = IB_UVERBS_SRQT_BASIC;  // enum ib_uverbs_srq_type
  PdHandle pd{};
  std::optional<XrcdHandle> xrcd{};  // XRC
  std::optional<CqHandle> cq{};      // XRC, tag matching
  std::uint64_t user_handle = 0;     // comes back in events
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t limit = 0;
  std::uint32_t max_tags = 0;  // tag matching
  int async_event_fd = -1;     // -1: the context's
  mlx5_ib_create_srq driver{};
};

struct Srq {
  SrqHandle handle{};
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t srqn = 0;  // 24 bits
};

// CREATE_SRQ. EINVAL, before the kernel is asked, if XRC lacks its XRCD or CQ, or tag matching its CQ.
Expected<Srq> create_srq(Commands& commands, const SrqRequest& request);

struct SrqAttributes {
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t limit = 0;
};

// `mask` is enum ibv_srq_attr_mask: 1 max_wr, 2 limit.
Expected<void> modify_srq(Commands& commands, SrqHandle srq, const SrqAttributes& attributes, std::uint32_t mask);
Expected<SrqAttributes> query_srq(Commands& commands, SrqHandle srq);

// Returns how many events of the SRQ were given out: its owner waits until all of them are acknowledged.
Expected<std::uint32_t> destroy_srq(Commands& commands, SrqHandle srq);

}  // namespace umlx5::uapi
