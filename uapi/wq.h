// Receive work queues, tables of them, and flows: what raw packets are received through.
#pragma once

#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

struct WqRequest {
  PdHandle pd{};
  CqHandle cq{};
  std::uint64_t user_handle = 0;  // comes back in events
  int async_event_fd = -1;        // -1: the context's
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t flags = 0;  // enum ib_uverbs_wq_flags
  mlx5_ib_create_wq driver{};
};

struct Wq {
  WqHandle handle{};
  std::uint32_t wqn = 0;  // 24 bits
};

// CREATE_WQ, of type IB_UVERBS_WQT_RQ.
Expected<Wq> create_wq(Commands& commands, const WqRequest& request);

// States: 0 reset, 1 ready, 2 error.
struct WqChange {
  std::uint32_t mask = 0;  // enum ibv_wq_attr_mask: 1 state, 2 current state, 4 flags
  std::uint32_t state = 0, current_state = 0;
  std::uint32_t flags = 0, flags_mask = 0;
};
Expected<void> modify_wq(Commands& commands, WqHandle wq, const WqChange& change);

// Returns how many events of the queue were given out.
Expected<std::uint32_t> destroy_wq(Commands& commands, WqHandle wq);

struct RwqIndTable {
  RwqIndTableHandle handle{};
  std::uint32_t number = 0;
};
// EINVAL, before the kernel is asked, if there are not 2^n queues.
Expected<RwqIndTable> create_rwq_ind_table(Commands& commands, std::span<const WqHandle> queues);
Expected<void> destroy_rwq_ind_table(Commands& commands, RwqIndTableHandle table);

struct FlowRequest {
  QpHandle qp{};
  std::uint32_t type = 0;  // enum ibv_flow_attr_type
  std::uint16_t priority = 0;
  std::uint8_t port = 1;
  std::uint32_t flags = 0;
  std::uint8_t specification_count = 0;
  std::span<const std::byte> specifications{};  // one ib_uverbs_flow_spec_* behind the other
};
Expected<FlowHandle> create_flow(Commands& commands, const FlowRequest& request);
Expected<void> destroy_flow(Commands& commands, FlowHandle flow);

}  // namespace umlx5::uapi
