/* What versions of <infiniband/mlx5dv.h> newer than Debian 12's (44.0) added and this driver's libmlx5 knows, for C and
 * C++ programs that are built with the older header. Values and layouts: mlx5dv.h of rdma-core v65. The names are our
 * own, so that nothing clashes when the installed header catches up. */
#ifndef UMLX5_MLX5DV_ADDITIONS_H
#define UMLX5_MLX5DV_ADDITIONS_H

#include <infiniband/mlx5dv.h>
#include <stdint.h>

/* Bit of mlx5dv_qp_init_attr.create_flags: receive requests complete, and data is placed, in any order. Both ends of a
 * connection must have it. */
#define UMLX5DV_QP_CREATE_OOO_DP (1 << 7)

/* Bits of mlx5dv_context.comp_mask, for a struct umlx5dv_context. */
#define UMLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM (1 << 14)
#define UMLX5DV_CONTEXT_MASK_REG_C0 (1 << 15)
#define UMLX5DV_CONTEXT_MASK_OOO_RECV_WRS (1 << 16)

struct umlx5dv_reg {
  uint32_t value;
  uint32_t mask;
};

/* The most receive requests of a queue with OOO_DP, by type of queue pair; 0: it cannot have it. */
struct umlx5dv_ooo_recv_wrs_caps {
  uint32_t max_rc;
  uint32_t max_xrc;
  uint32_t max_dct;
  uint32_t max_ud;
  uint32_t max_uc;
};

/* To be given to mlx5dv_query_device() as &context.base. */
struct umlx5dv_context {
  struct mlx5dv_context base;
  uint64_t max_dc_rd_atom;
  uint64_t max_dc_init_rd_atom;
  struct umlx5dv_reg reg_c0;
  struct umlx5dv_ooo_recv_wrs_caps ooo_recv_wrs_caps;
};

#endif
