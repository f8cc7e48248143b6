// Memory keys that libmlx5 exports.
#include "driver/verbs/mkey_objects.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/report.h"

using namespace umlx5::verbs;

extern "C" {

mlx5dv_mkey* mlx5dv_create_mkey(mlx5dv_mkey_init_attr* attr) { return create_mkey(attr); }
int mlx5dv_destroy_mkey(mlx5dv_mkey* mkey) { return destroy_mkey(mkey); }
int _mlx5dv_mkey_check(mlx5dv_mkey* mkey, mlx5dv_mkey_err* error, size_t error_bytes) {
  return check_mkey(mkey, error, error_bytes);
}

int mlx5dv_qp_cancel_posted_send_wrs(mlx5dv_qp_ex* qp, std::uint64_t wr_id) {
  return cancel_sends(object_of(qp), wr_id);
}

}  // extern "C"
