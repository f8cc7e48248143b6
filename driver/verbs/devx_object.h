// What a DEVX object is behind its opaque name.
#pragma once

#include <infiniband/mlx5dv.h>

#include "uapi/handles.h"

struct mlx5dv_devx_obj {
  ibv_context* context = nullptr;
  umlx5::uapi::DevxObjectHandle handle{};
};
