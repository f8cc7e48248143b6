// Memory on the device.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "driver/verbs/objects.h"
#include "uapi/dm.h"

namespace umlx5::verbs {

struct DmObject {
  ibv_dm dm{};
  uapi::Dm native;
  uapi::Mapping mapping;
  std::byte* memory() const { return mapping.address() + native.start_offset_bytes; }
};
inline DmObject& object_of(ibv_dm* dm) { return containing(dm, &DmObject::dm); }

// `type`: enum mlx5_ib_uapi_dm_type.
ibv_dm* alloc_device_memory(ibv_context* context, const ibv_alloc_dm_attr& attributes, std::uint32_t type);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes);
int free_dm(ibv_dm* dm);
ibv_mr* register_dm(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length, unsigned access);

// What another user of the same context has allocated.
ibv_dm* import_dm(ibv_context* context, std::uint32_t handle);
void unimport_dm(ibv_dm* dm);

}  // namespace umlx5::verbs
