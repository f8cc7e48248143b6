// Protection domains, thread domains, parent domains.
#pragma once

#include <infiniband/verbs.h>

namespace umlx5::verbs {

ibv_pd* alloc_pd(ibv_context* context);
// EBUSY while a parent domain or anything else is in it. For parent domains too.
int dealloc_pd(ibv_pd* pd);

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);

}  // namespace umlx5::verbs
