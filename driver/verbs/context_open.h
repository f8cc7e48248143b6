// Opening and closing a device. Part of libibverbs alone.
#pragma once

#include "driver/verbs/objects.h"

namespace umlx5::verbs {

// A context with both operation tables filled, which holds its device; null with errno.
ContextObject* open_context(DeviceObject& device, const OpenOptions& options);
// A context on a file that someone else opened. It takes `descriptor` over and closes it, unless it fails: null, errno.
ContextObject* import_context(DeviceObject& device, int descriptor);
void close_context(ContextObject& context);

}  // namespace umlx5::verbs
