#include "uapi/dm.h"

#include <fmt/format.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <sys/mman.h>

namespace umlx5::uapi {

Expected<Dm> alloc_dm(Commands& commands, std::uint64_t length_bytes, std::uint32_t log_alignment, std::uint32_t type) {
  Dm dm{.length_bytes = length_bytes};
  Request request(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, "ALLOC_DM");
  request.new_handle(UVERBS_ATTR_ALLOC_DM_HANDLE)
      .input(UVERBS_ATTR_ALLOC_DM_LENGTH, length_bytes)
      .input(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, log_alignment)
      .output(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, dm.start_offset_bytes)
      .output(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, dm.page_index);
  if (type != 0) {
    request.constant(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE, type);
  }
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  dm.handle = request.result_handle<DmHandle>(UVERBS_ATTR_ALLOC_DM_HANDLE);
  return dm;
}

Expected<Dm> query_dm(Commands& commands, DmHandle handle) {
  Dm dm{.handle = handle};
  Request request(UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, "QUERY_DM");
  request.handle(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, handle)
      .output(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, dm.start_offset_bytes)
      .output(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, dm.page_index)
      .output(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, dm.length_bytes);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return dm;
}

Expected<void> free_dm(Commands& commands, DmHandle dm) {
  Request request(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, "FREE_DM");
  request.handle(UVERBS_ATTR_FREE_DM_HANDLE, dm);
  return commands.destroy(request, fmt::format("DM handle {}", dm.value));
}

Expected<Mapping> map_dm(Channel& channel, const Dm& dm) {
  const auto page = page_bytes();
  const std::size_t bytes = (dm.start_offset_bytes + dm.length_bytes + page - 1) / page * page;
  return map(channel, bytes, PROT_READ | PROT_WRITE, mmap_offset_bytes(MLX5_IB_MMAP_DEVICE_MEM, dm.page_index, page),
             fmt::format("DM handle {}", dm.handle.value));
}

Expected<DmMr> register_dm_mr(Commands& commands, const DmMrRequest& mr) {
  DmMr result;
  Request request(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, "REG_DM_MR");
  request.new_handle(UVERBS_ATTR_REG_DM_MR_HANDLE)
      .input(UVERBS_ATTR_REG_DM_MR_OFFSET, mr.offset_bytes)
      .input(UVERBS_ATTR_REG_DM_MR_LENGTH, mr.length_bytes)
      .handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, mr.pd)
      .input(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, mr.access)
      .handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, mr.dm)
      .output(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, result.lkey)
      .output(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, result.rkey);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  result.handle = request.result_handle<MrHandle>(UVERBS_ATTR_REG_DM_MR_HANDLE);
  return result;
}

}  // namespace umlx5::uapi
