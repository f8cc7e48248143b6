// UAR pages: the doorbell registers that a process maps.
#pragma once

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"
#include "uapi/mapping.h"

namespace umlx5::uapi {

// Values of enum mlx5_ib_uapi_uar_alloc_type of <rdma/mlx5_user_ioctl_verbs.h>.
enum class UarType : std::uint64_t {
  kBlueFlame = 0,  // write-combining
  kNonCached = 1,  // plain doorbells only
};

struct Uar {
  UarHandle handle{};
  std::uint64_t mmap_offset_bytes = 0;
  std::uint32_t mmap_length_bytes = 0;
  std::uint32_t page_id = 0;  // what queues name it by
};

// A dynamic UAR, for contexts with ContextInfo::dynamic_uars().
Expected<Uar> alloc_uar(Commands& commands, UarType type);
Expected<void> destroy_uar(Commands& commands, UarHandle uar);

// Write-only. Unmap it before destroying the UAR.
Expected<Mapping> map_uar(Channel& channel, const Uar& uar);

// How a static UAR is mapped (enum mlx5_ib_mmap_cmd).
enum class StaticUarMap : unsigned {
  kRegular = 0,  // what the device likes best
  kWriteCombining = 2,
  kNonCached = 3,
  kAllocWriteCombining = 6,  // makes a new one: old kernels' way to dynamic UARs
};

// UAR page `index` of those that came with the context; write-only, one page.
Expected<Mapping> map_static_uar(Channel& channel, StaticUarMap how, std::uint32_t index);

}  // namespace umlx5::uapi
