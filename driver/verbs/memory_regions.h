// Memory regions.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace umlx5::verbs {

// Access bits are enum ibv_access_flags; of the optional ones (IBV_ACCESS_OPTIONAL_RANGE) those that the device lacks
// are ignored.
ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova, unsigned access);
int deregister_memory(ibv_mr* mr);

}  // namespace umlx5::verbs
