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
}

}  // namespace umlx5::verbs
