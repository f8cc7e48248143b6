// Device memory that libibverbs exports.
#include "driver/verbs/device_memory.h"

extern "C" {

ibv_dm* ibv_import_dm(ibv_context* context, uint32_t dm_handle) { return umlx5::verbs::import_dm(context, dm_handle); }
void ibv_unimport_dm(ibv_dm* dm) { umlx5::verbs::unimport_dm(dm); }

}  // extern "C"
