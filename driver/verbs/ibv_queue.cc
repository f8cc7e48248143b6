// Queue pairs, completion queues and shared receive queues that libibverbs exports.
#include "driver/verbs/queues.h"

using namespace umlx5;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  return verbs::create_cq(context, cqe, cq_context, channel, comp_vector);
}
int ibv_resize_cq(ibv_cq* cq, int cqe) { return verbs::resize_cq(cq, cqe); }
int ibv_destroy_cq(ibv_cq* cq) { return verbs::destroy_cq(cq); }

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) { return verbs::create_srq(pd, attr); }
int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) { return verbs::modify_srq(srq, attr, mask); }
int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) { return verbs::query_srq(srq, attr); }
int ibv_destroy_srq(ibv_srq* srq) { return verbs::destroy_srq(srq); }

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) { return verbs::create_qp(pd, attr); }
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) { return verbs::modify_qp(qp, attr, mask); }
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) {
  return verbs::query_qp(qp, attr, mask, init_attr);
}
int ibv_destroy_qp(ibv_qp* qp) { return verbs::destroy_qp(qp); }
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return verbs::qp_to_qp_ex(qp); }
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) { return verbs::query_ece(qp, ece); }
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) { return verbs::set_ece(qp, ece); }
int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags) {
  return verbs::query_qp_data_in_order(qp, opcode, flags);
}

}  // extern "C"
