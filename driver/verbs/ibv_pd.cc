// Protection domains that libibverbs exports.
#include <memory>

#include "driver/verbs/domains.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

using namespace umlx5::verbs;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) { return alloc_pd(context); }
int ibv_dealloc_pd(ibv_pd* pd) { return dealloc_pd(pd); }

}  // extern "C"
