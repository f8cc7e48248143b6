// The context of IBVERBS_1.0's programs. Part of libibverbs alone.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace umlx5::verbs {

// As large as an ibv_context, whose `abi_compat` is 0 in it: a function without a version of its own for these programs
// (ibv_create_comp_channel) tells by that which context it was given.
struct OldContext {
  void* device;
  void* operations[27];
  int cmd_fd, async_fd, num_comp_vectors;
  ibv_context* real;
  std::byte rest[sizeof(ibv_context) - 248];
};
static_assert(offsetof(OldContext, real) == 240 && sizeof(OldContext) == sizeof(ibv_context));

// The context of today behind whatever a program passed.
inline ibv_context* real_context(ibv_context* context) {
  return context->abi_compat != nullptr ? context : reinterpret_cast<OldContext*>(context)->real;
}

}  // namespace umlx5::verbs
