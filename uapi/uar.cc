#include "uapi/uar.h"

#include <fmt/format.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <sys/mman.h>

namespace umlx5::uapi {

Expected<Uar> alloc_uar(Commands& commands, UarType type) {
  Uar uar;
  Request request(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, "ALLOC_UAR");
  request.new_handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE)
      .constant(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, static_cast<std::uint64_t>(type))
      .output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, uar.mmap_offset_bytes)
      .output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, uar.mmap_length_bytes)
      .output(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, uar.page_id);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  uar.handle = request.result_handle<UarHandle>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);
  return uar;
}

Expected<void> destroy_uar(Commands& commands, UarHandle uar) {
  Request request(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, "DESTROY_UAR");
  request.handle(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, uar);
  return commands.destroy(request, fmt::format("UAR handle {}", uar.value));
}

Expected<Mapping> map_uar(Channel& channel, const Uar& uar) {
  return map(channel, uar.mmap_length_bytes, PROT_WRITE, uar.mmap_offset_bytes, fmt::format("UAR {:#x}", uar.page_id));
}

Expected<Mapping> map_static_uar(Channel& channel, StaticUarMap how, std::uint32_t index) {
  const std::size_t page = page_bytes();
  return map(channel, page, PROT_WRITE, mmap_offset_bytes(static_cast<unsigned>(how), index, page),
             fmt::format("UAR page {}", index));
}

}  // namespace umlx5::uapi
