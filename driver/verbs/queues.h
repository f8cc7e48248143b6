// The queue objects of the C ABI: queue pairs, completion queues, shared receive queues.
//
// What libibverbs.so.1 and libmlx5.so.1 export under the verbs' own names calls these; semantics, errno and return
// values are the verbs' manual pages'. All are thread-safe as the verbs promise: queues take a small lock each, unless
// their thread domain, context or CQ flags say that one thread uses them.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdint>

namespace umlx5::verbs {

// Fills the queue entries of both operation tables: poll_cq, req_notify_cq, post_send, post_recv, post_srq_recv,
// bind_mw; create_cq_ex, modify_cq, create_qp_ex, open_qp, modify_qp_rate_limit, create_srq_ex, get_srq_num.
void set_queue_operations(verbs_context& operations);

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector);
int resize_cq(ibv_cq* cq, int cqe);
int destroy_cq(ibv_cq* cq);
// To be called for each completion event that was read from `cq`'s channel, before it is handed to the program.
void completion_event_taken(ibv_cq* cq);

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attr);
int destroy_srq(ibv_srq* srq);

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr);
int destroy_qp(ibv_qp* qp);
ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp);
int query_ece(ibv_qp* qp, ibv_ece* ece);
int set_ece(ibv_qp* qp, ibv_ece* ece);
int query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags);

// mlx5dv_create_qp, mlx5dv_create_cq, mlx5dv_qp_ex_from_ibv_qp_ex, mlx5dv_dci_stream_id_reset, mlx5dv_init_obj.
ibv_qp* mlx5_create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr, mlx5dv_qp_init_attr* mlx5_attr);
ibv_cq_ex* mlx5_create_cq(ibv_context* context, ibv_cq_init_attr_ex* attr, mlx5dv_cq_init_attr* mlx5_attr);
mlx5dv_qp_ex* mlx5_qp_ex(ibv_qp_ex* qp);
int reset_dci_stream(ibv_qp* qp, std::uint16_t stream);
int mlx5_init_obj(mlx5dv_obj* obj, std::uint64_t type);
// As version MLX5_1.0 had it: cq_uar says where the register's address is kept.
int mlx5_init_obj_1_0(mlx5dv_obj* obj, std::uint64_t type);

}  // namespace umlx5::verbs
