// Memory on the device, and regions of it.
#pragma once

#include <cstdint>

#include "uapi/commands.h"
#include "uapi/error.h"
#include "uapi/handles.h"
#include "uapi/mapping.h"

namespace umlx5::uapi {

struct Dm {
  DmHandle handle{};
  std::uint64_t start_offset_bytes = 0;  // into the first page of its mapping
  std::uint16_t page_index = 0;          // what map_dm() asks for
  std::uint64_t length_bytes = 0;
};

// `log_alignment`: of its address on the device, 2^n bytes; 0 for any. `type`: enum mlx5_ib_uapi_dm_type.
Expected<Dm> alloc_dm(Commands& commands, std::uint64_t length_bytes, std::uint32_t log_alignment, std::uint32_t type);
// What another user of the same context has allocated.
Expected<Dm> query_dm(Commands& commands, DmHandle dm);
// EBUSY while a region is of it.
Expected<void> free_dm(Commands& commands, DmHandle dm);

Expected<Mapping> map_dm(Channel& channel, const Dm& dm);

struct DmMrRequest {
  PdHandle pd;
  DmHandle dm;
  std::uint64_t offset_bytes = 0, length_bytes = 0;
  std::uint32_t access = 0;  // enum ib_uverbs_access_flags, zero-based
};
struct DmMr {
  MrHandle handle{};
  std::uint32_t lkey = 0, rkey = 0;
};
Expected<DmMr> register_dm_mr(Commands& commands, const DmMrRequest& mr);

}  // namespace umlx5::uapi
