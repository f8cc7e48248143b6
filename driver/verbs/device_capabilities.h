// What the device itself tells of its abilities, through DEVX.
#pragma once

#include <infiniband/mlx5dv.h>

#include "uapi/commands.h"

namespace umlx5::verbs {

// All zeros where the device has nothing of it, or the kernel does not let us ask.
struct DeviceCapabilities {
  mlx5dv_sig_caps signature{};
  mlx5dv_crypto_caps crypto{};
};
DeviceCapabilities query_capabilities(uapi::Commands& commands);

}  // namespace umlx5::verbs
