// Memory windows and XRC domains: what inline calls make through the context's operations.
#pragma once

#include <infiniband/verbs.h>

namespace umlx5::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);

// EINVAL unless comp_mask has both IBV_XRCD_INIT_ATTR_FD and IBV_XRCD_INIT_ATTR_OFLAGS.
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int close_xrcd(ibv_xrcd* xrcd);

}  // namespace umlx5::verbs
