// Asks the device itself what it can do, through DEVX. Private to the driver.
#pragma once

#include <cstdint>

#include "driver/context.h"
#include "uapi/commands.h"

namespace umlx5 {

// `max_recv_wr`: the device's, which bounds out-of-order receives. All zero when the kernel does not let us ask.
HcaCapabilities query_hca_capabilities(uapi::Commands& commands, std::uint32_t max_recv_wr);

}  // namespace umlx5
