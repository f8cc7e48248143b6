// The operation tables' entries of the queues.
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"

namespace umlx5::verbs {

void set_queue_operations(verbs_context& operations) {
  ibv_context_ops& ops = operations.context.ops;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  ops.bind_mw = bind_mw;
  operations.create_cq_ex = create_cq_ex;
  operations.modify_cq = modify_cq;
  operations.create_qp_ex = create_qp_ex;
  operations.open_qp = open_qp;
  operations.modify_qp_rate_limit = modify_qp_rate_limit;
  operations.create_srq_ex = create_srq_ex;
  operations.get_srq_num = get_srq_num;
  operations.create_wq = create_wq;
  operations.modify_wq = modify_wq;
  operations.destroy_wq = destroy_wq;
  operations.create_rwq_ind_table = create_rwq_table;
  operations.destroy_rwq_ind_table = destroy_rwq_table;
  operations.ibv_create_flow = create_flow;
  operations.ibv_destroy_flow = destroy_flow;
}

}  // namespace umlx5::verbs
