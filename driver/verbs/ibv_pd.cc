// Protection domains that libibverbs exports.
#include "driver/verbs/domains.h"

using namespace umlx5::verbs;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) { return alloc_pd(context); }
int ibv_dealloc_pd(ibv_pd* pd) { return dealloc_pd(pd); }
ibv_pd* ibv_import_pd(ibv_context* context, uint32_t pd_handle) { return import_pd(context, pd_handle); }
void ibv_unimport_pd(ibv_pd* pd) { unimport_pd(pd); }

}  // extern "C"
