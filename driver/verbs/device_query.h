// What a device and its ports are, in the structures of <infiniband/verbs.h>. All return 0 or errno.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace umlx5::verbs {

int query_device(ibv_context* context, ibv_device_attr* attributes);

// At most `attributes_bytes` are written: what the caller was compiled with. What is beyond this library's knowledge
// becomes 0. EINVAL for an input with a comp_mask, or a size before the end of `orig_attr`.
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t attributes_bytes);

// As above; EINVAL for a size before the end of `phys_state`.
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t attributes_bytes);

// mlx5dv_query_device(): the fields that `attributes->comp_mask` asks for, and which of them there are.
int query_mlx5_device(ibv_context* context, mlx5dv_context* attributes);

// Of `values`, what its comp_mask asks for and can be had.
int query_rt_values(ibv_context* context, ibv_values_ex* values);

// The port attributes as programs before `link_layer` knew them.
inline constexpr std::size_t kCompatPortBytes = offsetof(ibv_port_attr, flags);

}  // namespace umlx5::verbs
