// Device memory that libmlx5 exports.
#include <fmt/format.h>
#include <infiniband/mlx5dv.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <cerrno>

#include "driver/verbs/device_memory.h"
#include "driver/verbs/report.h"

using namespace umlx5::verbs;

extern "C" {

ibv_dm* mlx5dv_alloc_dm(ibv_context* context, ibv_alloc_dm_attr* dm_attr, mlx5dv_alloc_dm_attr* mlx5_dm_attr) {
  if (mlx5_dm_attr->comp_mask != 0) {
    return report_null({EINVAL, fmt::format("DM: the mask {:#x} is not known", mlx5_dm_attr->comp_mask)});
  }
  if (mlx5_dm_attr->type != MLX5DV_DM_TYPE_MEMIC) {
    return report_null({EOPNOTSUPP, "DM: memory for steering rules is not supported"});
  }
  return alloc_device_memory(context, *dm_attr, MLX5_IB_UAPI_DM_TYPE_MEMIC);
}

}  // extern "C"
