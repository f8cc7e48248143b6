#include "uapi/pd.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

namespace umlx5::uapi {

Expected<Pd> alloc_pd(Commands& commands) {
  ib_uverbs_alloc_pd core{};
  ib_uverbs_alloc_pd_resp answer{};
  mlx5_ib_alloc_pd_resp driver{};
  const auto done = commands.write({.name = "ALLOC_PD",
                                    .number = IB_USER_VERBS_CMD_ALLOC_PD,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer),
                                    .driver_out = writable_bytes_of(driver)});
  if (!done) return std::unexpected(done.error());
  return Pd{{answer.pd_handle}, driver.pdn};
}

Expected<void> dealloc_pd(Commands& commands, PdHandle pd) {
  Request request(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, "DEALLOC_PD");
  request.handle(UVERBS_ATTR_DESTROY_PD_HANDLE, pd);
  ib_uverbs_dealloc_pd core{.pd_handle = pd.value};
  return commands.destroy(
      request, {.name = "DEALLOC_PD", .number = IB_USER_VERBS_CMD_DEALLOC_PD, .core_in = writable_bytes_of(core)},
      fmt::format("PD handle {}", pd.value));
}

Expected<std::uint32_t> query_pdn(Commands& commands, PdHandle pd) {
  std::uint32_t pdn = 0;
  Request request(UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, "QUERY_PD");
  request.handle(MLX5_IB_ATTR_QUERY_PD_HANDLE, pd).output(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, pdn);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return pdn;
}

}  // namespace umlx5::uapi
