// What a DEVX object is behind its opaque name.
#pragma once

#include <infiniband/mlx5dv.h>

#include "driver/verbs/objects.h"
#include "uapi/handles.h"

struct mlx5dv_devx_obj {
  umlx5::verbs::ContextUse context;
  umlx5::uapi::DevxObjectHandle handle{};
};
