// Queue pairs and completion queues that libmlx5 exports.
#include <cerrno>

#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"

using namespace umlx5;

extern "C" {

ibv_qp* mlx5dv_create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr, mlx5dv_qp_init_attr* mlx5_attr) {
  return verbs::mlx5_create_qp(context, attr, mlx5_attr);
}
ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attr, mlx5dv_cq_init_attr* mlx5_attr) {
  return verbs::mlx5_create_cq(context, attr, mlx5_attr);
}
ibv_wq* mlx5dv_create_wq(ibv_context* context, ibv_wq_init_attr* attr, mlx5dv_wq_init_attr* mlx5_attr) {
  return verbs::mlx5_create_wq(context, attr, mlx5_attr);
}
int mlx5dv_dci_stream_id_reset(ibv_qp* qp, std::uint16_t stream) { return verbs::reset_dci_stream(qp, stream); }
mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* qp) { return verbs::mlx5_qp_ex(qp); }

int mlx5dv_init_obj(mlx5dv_obj* obj, std::uint64_t type) { return verbs::mlx5_init_obj(obj, type); }

// The first version told where the CQ's register's address is kept, not the address.
int umlx5_init_obj_1_0(mlx5dv_obj* obj, std::uint64_t type) { return verbs::mlx5_init_obj_1_0(obj, type); }
__asm__(".symver umlx5_init_obj_1_0, mlx5dv_init_obj@MLX5_1.0");

}  // extern "C"
