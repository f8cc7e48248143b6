#include "uapi/device_objects.h"

#include <fmt/format.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

namespace umlx5::uapi {

Expected<Var> alloc_var(Commands& commands) {
  Var var;
  Request request(MLX5_IB_OBJECT_VAR, MLX5_IB_METHOD_VAR_OBJ_ALLOC, "VAR_ALLOC");
  request.new_handle(MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE)
      .output(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET, var.mmap_offset_bytes)
      .output(MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH, var.mmap_length_bytes)
      .output(MLX5_IB_ATTR_VAR_OBJ_ALLOC_PAGE_ID, var.page_id);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  var.handle = request.result_handle<VarHandle>(MLX5_IB_ATTR_VAR_OBJ_ALLOC_HANDLE);
  return var;
}

Expected<void> destroy_var(Commands& commands, VarHandle var) {
  Request request(MLX5_IB_OBJECT_VAR, MLX5_IB_METHOD_VAR_OBJ_DESTROY, "VAR_DESTROY");
  request.handle(MLX5_IB_ATTR_VAR_OBJ_DESTROY_HANDLE, var);
  return commands.destroy(request, fmt::format("VAR handle {}", var.value));
}

Expected<Pp> alloc_pp(Commands& commands, std::span<const std::byte> context, std::uint32_t flags) {
  Pp pp;
  Request request(MLX5_IB_OBJECT_PP, MLX5_IB_METHOD_PP_OBJ_ALLOC, "PP_ALLOC");
  request.new_handle(MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE)
      .input_bytes(MLX5_IB_ATTR_PP_OBJ_ALLOC_CTX, context)
      .input(MLX5_IB_ATTR_PP_OBJ_ALLOC_FLAGS, flags)
      .output(MLX5_IB_ATTR_PP_OBJ_ALLOC_INDEX, pp.index);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  pp.handle = request.result_handle<PpHandle>(MLX5_IB_ATTR_PP_OBJ_ALLOC_HANDLE);
  return pp;
}

Expected<void> destroy_pp(Commands& commands, PpHandle pp) {
  Request request(MLX5_IB_OBJECT_PP, MLX5_IB_METHOD_PP_OBJ_DESTROY, "PP_DESTROY");
  request.handle(MLX5_IB_ATTR_PP_OBJ_DESTROY_HANDLE, pp);
  return commands.destroy(request, fmt::format("PP handle {}", pp.value));
}

Expected<mlx5_ib_uapi_query_port> query_mlx5_port(Commands& commands, std::uint32_t port) {
  mlx5_ib_uapi_query_port answer{};
  Request request(UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT, "mlx5 QUERY_PORT");
  request.input(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, port).output(MLX5_IB_ATTR_QUERY_PORT, answer);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return answer;
}

}  // namespace umlx5::uapi
