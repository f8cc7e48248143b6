// The device's own abilities in mlx5dv's form. All zeros where it has nothing of the kind.
#pragma once

#include <infiniband/mlx5dv.h>

#include "driver/context.h"

namespace umlx5::verbs {

void fill(const HcaCapabilities& device, mlx5dv_sig_caps& caps);
void fill(const HcaCapabilities& device, mlx5dv_crypto_caps& caps);

}  // namespace umlx5::verbs
