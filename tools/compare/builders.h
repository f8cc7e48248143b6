// The steps that posting to an extended queue pair has.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdint>

namespace umlx5::compare {

// Which steps an extended queue pair has: bits in the order of the structures' members.
inline std::uint64_t builders_of(const ibv_qp_ex& ex) {
  std::uint64_t bits = 0;
  unsigned at = 0;
  const auto add = [&](auto* function) { bits |= std::uint64_t{function != nullptr} << at++; };
  add(ex.wr_atomic_cmp_swp), add(ex.wr_atomic_fetch_add), add(ex.wr_bind_mw), add(ex.wr_local_inv);
  add(ex.wr_rdma_read), add(ex.wr_rdma_write), add(ex.wr_rdma_write_imm), add(ex.wr_send), add(ex.wr_send_imm);
  add(ex.wr_send_inv), add(ex.wr_send_tso), add(ex.wr_set_ud_addr), add(ex.wr_set_xrc_srqn);
  add(ex.wr_set_inline_data), add(ex.wr_set_inline_data_list), add(ex.wr_set_sge), add(ex.wr_set_sge_list);
  add(ex.wr_start), add(ex.wr_complete), add(ex.wr_abort);
  return bits;
}

inline std::uint64_t builders_of(const mlx5dv_qp_ex& ex) {
  std::uint64_t bits = 0;
  unsigned at = 0;
  const auto add = [&](auto* function) { bits |= std::uint64_t{function != nullptr} << at++; };
  add(ex.wr_set_dc_addr), add(ex.wr_mr_interleaved), add(ex.wr_mr_list), add(ex.wr_mkey_configure);
  add(ex.wr_set_mkey_access_flags), add(ex.wr_set_mkey_layout_list), add(ex.wr_set_mkey_layout_interleaved);
  add(ex.wr_set_mkey_sig_block), add(ex.wr_raw_wqe), add(ex.wr_set_dc_addr_stream), add(ex.wr_memcpy);
  add(ex.wr_set_mkey_crypto);
  return bits;
}

}  // namespace umlx5::compare
