// Small things of the device that a program may have of its own: pages of doorbells for virtio queues, and entries of
// the rate table. All are ioctl methods of <rdma/mlx5_user_ioctl_cmds.h>.
#pragma once

#include <rdma/mlx5_user_ioctl_verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"

namespace umlx5::uapi {

using VarHandle = Handle<struct VarTag>;
using PpHandle = Handle<struct PpTag>;

// A virtio doorbell page (VAR), to be mapped at the offset.
struct Var {
  VarHandle handle{};
  std::uint64_t mmap_offset_bytes = 0;
  std::uint32_t mmap_length_bytes = 0;
  std::uint32_t page_id = 0;
};
Expected<Var> alloc_var(Commands& commands);
Expected<void> destroy_var(Commands& commands, VarHandle var);

// An entry of the packet pacing table.
struct Pp {
  PpHandle handle{};
  std::uint16_t index = 0;
};
// `context` is the device's set_pp_rate_limit_context; `flags` is enum mlx5_ib_uapi_pp_alloc_flags.
Expected<Pp> alloc_pp(Commands& commands, std::span<const std::byte> context, std::uint32_t flags);
Expected<void> destroy_pp(Commands& commands, PpHandle pp);

// Numbers by which steering knows a port, and where its tables are; `flags` says what of it counts.
Expected<mlx5_ib_uapi_query_port> query_mlx5_port(Commands& commands, std::uint32_t port);

}  // namespace umlx5::uapi
