#include "driver/verbs/operations.h"

#include "driver/verbs/device_memory.h"
#include "driver/verbs/device_query.h"
#include "driver/verbs/domains.h"
#include "driver/verbs/memory_regions.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/windows.h"

namespace umlx5::verbs {
namespace {

int compat_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attributes), kCompatPortBytes);
}

}  // namespace

// An operation that stays null is one that the header's inline functions refuse with EOPNOTSUPP.
void set_operations(verbs_context& verbs) {
  verbs.context.ops._compat_query_device = query_device;
  verbs.context.ops._compat_query_port = compat_query_port;
  verbs.context.ops.alloc_mw = alloc_mw;
  verbs.context.ops.dealloc_mw = dealloc_mw;
  verbs.query_device_ex = query_device_ex;
  verbs.query_port = query_port;
  verbs.query_rt_values = query_rt_values;
  verbs.alloc_td = alloc_td;
  verbs.dealloc_td = dealloc_td;
  verbs.alloc_parent_domain = alloc_parent_domain;
  verbs.alloc_null_mr = alloc_null_region;
  verbs.advise_mr = advise_memory;
  verbs.alloc_dm = alloc_dm;
  verbs.free_dm = free_dm;
  verbs.reg_dm_mr = register_dm;
  verbs.open_xrcd = open_xrcd;
  verbs.close_xrcd = close_xrcd;
  set_queue_operations(verbs);
}

}  // namespace umlx5::verbs
