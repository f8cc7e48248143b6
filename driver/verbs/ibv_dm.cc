// Device memory that libibverbs exports. Devices without it, which are all so far, refuse.
#include "driver/verbs/report.h"

using umlx5::verbs::unsupported;
using umlx5::verbs::unsupported_null;

extern "C" {

void* ibv_import_dm() { return unsupported_null("ibv_import_dm"); }
void ibv_unimport_dm() { unsupported("ibv_unimport_dm"); }

}  // extern "C"
