// The beginning of a context: what the driver tells the kernel about itself, and what the device may do.
// Layouts: struct mlx5_ib_alloc_ucontext_req_v2 and struct mlx5_ib_alloc_ucontext_resp of <rdma/mlx5-abi.h>.
#pragma once

#include <rdma/mlx5-abi.h>

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/file_descriptor.h"

namespace umlx5::uapi {

struct ContextRequest {
  std::uint32_t total_bfregs = 16;       // BlueFlame registers, for kernels without dynamic UARs
  std::uint32_t low_latency_bfregs = 4;  // of these, used by one queue each
  bool devx_required = false;            // fail instead of going on without DEVX
};

struct ContextInfo {
  std::uint32_t completion_vectors = 0;
  std::uint64_t core_support = 0;  // enum ib_uverbs_core_support; 0 from a kernel without the method
  bool devx = false;               // DEVX commands are allowed
  // Old kernels open it with the context. Empty otherwise: see open_async_event_fd() of events.h.
  FileDescriptor async_event_fd;
  mlx5_ib_alloc_ucontext_resp device{};  // host order; what the kernel does not know is zero

  // The kernel hands out UARs one by one (uar.h); if not, tot_bfregs of them are there to be mapped.
  bool dynamic_uars() const { return device.tot_bfregs == 0; }
};

// GET_CONTEXT, once per channel and before every other command. Older kernels refuse a longer request than they know,
// so it is tried in the three lengths there have been, with DEVX and then, unless it is required, without. Fails with
// what the first try failed with; EOPNOTSUPP if the device's CQE version is newer than 1.
Expected<ContextInfo> get_context(Commands& commands, const ContextRequest& request);

// QUERY_CONTEXT: what get_context() told whoever opened the channel's file first. Whether that was with DEVX the kernel
// does not tell; `devx` is true. EINVAL for a context whose UARs came with it.
Expected<ContextInfo> query_context(Commands& commands);

}  // namespace umlx5::uapi
