// Keeping registered memory out of forked children, for kernels that would otherwise move it away from the device when
// the parent writes to it after fork(). libibverbs exports these calls; libmlx5 imports them.
#pragma once

#include <cstddef>

extern "C" {

// Every page of the range stays out of children until ibv_dofork_range() was called as often. Does nothing unless
// ibv_fork_init() was called. 0, or -1 with errno.
int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);

}  // extern "C"
