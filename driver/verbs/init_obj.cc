// mlx5dv_init_obj(): where objects lie in memory, for programs that work on them themselves.
#include <fmt/format.h>

#include <cerrno>

#include "driver/verbs/device_memory.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/queues.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint64_t kKnown =
    MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_RWQ | MLX5DV_OBJ_DM | MLX5DV_OBJ_AH | MLX5DV_OBJ_PD;

void describe(ibv_dm* in, mlx5dv_dm& out) {
  const DmObject& object = object_of(in);
  out.buf = object.memory();
  out.length = object.native.length_bytes;
  out.comp_mask &= MLX5DV_DM_MASK_REMOTE_VA;
  if (out.comp_mask != 0) {
    out.remote_va = 0;  // keys of it are relative to its start
  }
}

// Optional fields are set where the mask that the program gave asks for them; the mask then tells which were.
void describe(ibv_qp* in, mlx5dv_qp& out) {
  const Qp& qp = *object_of(in).native;
  const SendQueue::Config& send = qp.send_queue().config();
  const ReceiveQueue::Config& receive = qp.receive_queue().config();
  out.dbrec = reinterpret_cast<__be32*>(qp.record());
  out.sq.buf = send.ring;
  out.sq.wqe_cnt = send.wqebbs;
  out.sq.stride = wqe::kWqebbBytes;
  out.rq.buf = receive.ring;
  out.rq.wqe_cnt = receive.wqes;
  out.rq.stride = 1u << receive.wqe_bytes_log2;
  out.bf.reg = send.uar.address();
  out.bf.size = static_cast<std::uint32_t>(send.uar.blueflame_bytes());
  std::uint64_t given = 0;
  if ((out.comp_mask & MLX5DV_QP_MASK_UAR_MMAP_OFFSET) != 0) {
    out.uar_mmap_offset = static_cast<off_t>(send.uar.page().mmap_offset_bytes);
    given |= MLX5DV_QP_MASK_UAR_MMAP_OFFSET;
  }
  const mlx5_ib_create_qp_resp& numbers = qp.creation();
  if ((out.comp_mask & MLX5DV_QP_MASK_RAW_QP_HANDLES) != 0) {
    out.tirn = numbers.tirn;
    out.tisn = numbers.tisn;
    out.rqn = numbers.rqn;
    out.sqn = numbers.sqn;
    given |= MLX5DV_QP_MASK_RAW_QP_HANDLES;
  }
  if ((out.comp_mask & MLX5DV_QP_MASK_RAW_QP_TIR_ADDR) != 0 &&
      (numbers.comp_mask & MLX5_IB_CREATE_QP_RESP_MASK_TIR_ICM_ADDR) != 0) {
    out.tir_icm_addr = numbers.tir_icm_addr;
    given |= MLX5DV_QP_MASK_RAW_QP_TIR_ADDR;
  }
  out.comp_mask = given;
}

void describe(ibv_cq* in, mlx5dv_cq& out) {
  Cq& cq = *object_of(in).cq;
  out.buf = cq.ring().entry(0);
  out.dbrec = reinterpret_cast<__be32*>(cq.record());
  out.cqe_cnt = cq.ring().entries();
  out.cqe_size = cq.ring().entry_bytes();
  out.cq_uar = cq.context().arm_page_address();
  out.cqn = cq.cqn();
  out.comp_mask = 0;
  cq.leave_to_program();
}

void describe(ibv_srq* in, mlx5dv_srq& out) {
  const Srq& srq = *object_of(in).native;
  const SharedReceiveQueue& queue = srq.queue();
  out.buf = queue.config().ring;
  out.dbrec = reinterpret_cast<__be32*>(srq.record());
  out.stride = 1u << queue.config().wqe_bytes_log2;
  out.head = queue.head();
  out.tail = queue.last();
  std::uint64_t given = 0;
  if ((out.comp_mask & MLX5DV_SRQ_MASK_SRQN) != 0) {
    out.srqn = srq.srqn();
    given |= MLX5DV_SRQ_MASK_SRQN;
  }
  out.comp_mask = given;
}

void describe(ibv_wq* in, mlx5dv_rwq& out) {
  Wq& wq = *object_of(in).native;
  const ReceiveQueue::Config& queue = wq.queue().config();
  out.buf = queue.ring - (wq.striding() != nullptr ? sizeof(mlx5_wqe_srq_next_seg) : 0);
  out.dbrec = reinterpret_cast<__be32*>(queue.record);
  out.wqe_cnt = queue.wqes;
  out.stride = 1u << queue.wqe_bytes_log2;
  out.comp_mask = 0;
}

void describe(ibv_ah* in, mlx5dv_ah& out) {
  // Programs read it.
  out.av = reinterpret_cast<mlx5_wqe_av*>(const_cast<std::byte*>(object_of(in).native->address_vector().data()));
  out.comp_mask = 0;
}

void describe(ibv_pd* in, mlx5dv_pd& out) {
  out.pdn = native_of(in).pdn();
  out.comp_mask = 0;
}

}  // namespace

int mlx5_init_obj(mlx5dv_obj* obj, std::uint64_t type) {
  if ((type & ~kKnown) != 0) {
    return report({EOPNOTSUPP, fmt::format("mlx5dv_init_obj: object types {:#x} are not supported", type & ~kKnown)});
  }
  if ((type & MLX5DV_OBJ_QP) != 0) {
    describe(obj->qp.in, *obj->qp.out);
  }
  if ((type & MLX5DV_OBJ_CQ) != 0) {
    describe(obj->cq.in, *obj->cq.out);
  }
  if ((type & MLX5DV_OBJ_SRQ) != 0) {
    describe(obj->srq.in, *obj->srq.out);
  }
  if ((type & MLX5DV_OBJ_RWQ) != 0) {
    describe(obj->rwq.in, *obj->rwq.out);
  }
  if ((type & MLX5DV_OBJ_AH) != 0) {
    describe(obj->ah.in, *obj->ah.out);
  }
  if ((type & MLX5DV_OBJ_PD) != 0) {
    describe(obj->pd.in, *obj->pd.out);
  }
  if ((type & MLX5DV_OBJ_DM) != 0) {
    describe(obj->dm.in, *obj->dm.out);
  }
  return 0;
}

int mlx5_init_obj_1_0(mlx5dv_obj* obj, std::uint64_t type) {
  const int error = mlx5_init_obj(obj, type);
  if (error == 0 && (type & MLX5DV_OBJ_CQ) != 0) {
    CqObject& cq = object_of(obj->cq.in);
    cq.arm_page = obj->cq.out->cq_uar;
    obj->cq.out->cq_uar = &cq.arm_page;
  }
  return error;
}

}  // namespace umlx5::verbs
