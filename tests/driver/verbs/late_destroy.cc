// Closes a device before the objects on it, and destroys those afterwards.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>

#include "tests/driver/verbs/loop.h"
#include "tests/driver/verbs/probe.h"

int main() {
  using namespace umlx5::probe;
  Loop loop;
  static char memory[4096];
  if (!loop.open() || !loop.register_memory(memory, sizeof memory)) {
    return 1;
  }
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr.max_wr = srq_attr.attr.max_sge = 1;
  ibv_srq* const srq = ibv_create_srq(loop.pd, &srq_attr);
  ibv_mw* const mw = ibv_alloc_mw(loop.pd, IBV_MW_TYPE_1);
  mlx5dv_devx_uar* const uar = mlx5dv_devx_alloc_uar(loop.context, MLX5DV_UAR_ALLOC_TYPE_NC);
  if (srq == nullptr || mw == nullptr || uar == nullptr) {
    return 1;
  }
  line("close_device", [&] { return ibv_close_device(loop.context); });
  line("destroy_qp", [&] { return ibv_destroy_qp(loop.qp); });
  line("destroy_srq", [&] { return ibv_destroy_srq(srq); });
  line("dealloc_mw", [&] { return ibv_dealloc_mw(mw); });
  line("dereg_mr", [&] { return ibv_dereg_mr(loop.mr); });
  mlx5dv_devx_free_uar(uar);
  // The device can be opened again, and works.
  Loop again;
  if (!again.open() || !again.register_memory(memory, sizeof memory)) {
    return 1;
  }
  std::printf("again: %d\n", again.send(memory, 1024, memory + 2048));
  line("destroy_qp", [&] { return ibv_destroy_qp(loop.qp); });
  return again.close() ? 0 : 1;
}
