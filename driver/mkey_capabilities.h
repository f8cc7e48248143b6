// What the device can do with memory keys, asked through DEVX. Private to the driver.
#pragma once

#include "driver/context.h"
#include "uapi/commands.h"

namespace umlx5 {

// Sets what concerns signatures and encryption. What the kernel does not let us ask for stays as it is.
void query_mkey_capabilities(uapi::Commands& commands, HcaCapabilities& capabilities);

}  // namespace umlx5
