// Protection domains, thread domains, parent domains.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace umlx5::verbs {

ibv_pd* alloc_pd(ibv_context* context);
// EBUSY while a parent domain or anything else is in it. For parent domains too.
int dealloc_pd(ibv_pd* pd);

// A PD that another user of the same context made. dealloc_pd() ends it for both, unimport_pd() for this user only.
ibv_pd* import_pd(ibv_context* context, std::uint32_t handle);
void unimport_pd(ibv_pd* pd);

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);

}  // namespace umlx5::verbs
