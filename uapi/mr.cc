#include "uapi/mr.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "uapi/kernel_additions.h"

namespace umlx5::uapi {
namespace {

// Bits of ib_uverbs_rereg_mr.flags: enum ibv_rereg_mr_flags of <infiniband/verbs.h>.
constexpr std::uint32_t kChangeTranslation = 1U << 0;
constexpr std::uint32_t kChangePd = 1U << 1;
constexpr std::uint32_t kChangeAccess = 1U << 2;

}  // namespace

Expected<Mr> register_mr(Commands& commands, const MrRequest& request) {
  ib_uverbs_reg_mr core{};
  core.start = request.address;
  core.length = request.length_bytes;
  core.hca_va = request.iova;
  core.pd_handle = request.pd.value;
  core.access_flags = request.access;
  ib_uverbs_reg_mr_resp answer{};
  const auto done = commands.write({.name = "REG_MR",
                                    .number = IB_USER_VERBS_CMD_REG_MR,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return Mr{{answer.mr_handle}, answer.lkey, answer.rkey};
}

Expected<Mr> register_dmabuf_mr(Commands& commands, const DmabufMrRequest& mr) {
  Mr result;
  Request request(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, "REG_DMABUF_MR");
  request.new_handle(UVERBS_ATTR_REG_DMABUF_MR_HANDLE)
      .output(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, result.lkey)
      .output(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, result.rkey)
      .handle(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, mr.pd)
      .input(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, mr.offset_bytes)
      .input(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, mr.length_bytes)
      .input(UVERBS_ATTR_REG_DMABUF_MR_IOVA, mr.iova)
      .fd(UVERBS_ATTR_REG_DMABUF_MR_FD, mr.dmabuf_fd)
      .input(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, mr.access);
  if (mr.mlx5_access != 0) request.input(kMlx5RegDmabufMrAccessFlags, mr.mlx5_access);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  result.handle = request.result_handle<MrHandle>(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
  return result;
}

Expected<Mr> reregister_mr(Commands& commands, MrHandle mr, const MrChange& change) {
  ib_uverbs_rereg_mr core{};
  core.mr_handle = mr.value;
  if (change.translation) {
    core.flags |= kChangeTranslation;
    core.start = change.translation->address;
    core.length = change.translation->length_bytes;
    core.hca_va = change.translation->iova;
  }
  if (change.pd) {
    core.flags |= kChangePd;
    core.pd_handle = change.pd->value;
  }
  if (change.access) {
    core.flags |= kChangeAccess;
    core.access_flags = *change.access;
  }
  ib_uverbs_rereg_mr_resp answer{};
  const auto done = commands.write({.name = "REREG_MR",
                                    .number = IB_USER_VERBS_CMD_REREG_MR,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return Mr{mr, answer.lkey, answer.rkey};
}

Expected<void> deregister_mr(Commands& commands, MrHandle mr) {
  Request request(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, "DEREG_MR");
  request.handle(UVERBS_ATTR_DESTROY_MR_HANDLE, mr);
  ib_uverbs_dereg_mr core{.mr_handle = mr.value};
  return commands.destroy(
      request, {.name = "DEREG_MR", .number = IB_USER_VERBS_CMD_DEREG_MR, .core_in = writable_bytes_of(core)},
      fmt::format("MR handle {}", mr.value));
}

Expected<MrAttributes> query_mr(Commands& commands, MrHandle mr) {
  MrAttributes result;
  Request request(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, "QUERY_MR");
  request.handle(UVERBS_ATTR_QUERY_MR_HANDLE, mr)
      .output(UVERBS_ATTR_QUERY_MR_RESP_LKEY, result.lkey)
      .output(UVERBS_ATTR_QUERY_MR_RESP_RKEY, result.rkey)
      .output(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, result.length_bytes)
      .output(UVERBS_ATTR_QUERY_MR_RESP_IOVA, result.iova);
  if (auto done = commands.method(request); !done) return std::unexpected(done.error());
  return result;
}

Expected<void> advise_mr(Commands& commands, PdHandle pd, std::uint32_t advice, std::uint32_t flags,
                         std::span<const ib_uverbs_sge> sges) {
  Request request(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, "ADVISE_MR");
  request.handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd)
      .constant(UVERBS_ATTR_ADVISE_MR_ADVICE, advice)
      .input(UVERBS_ATTR_ADVISE_MR_FLAGS, flags)
      .input_bytes(UVERBS_ATTR_ADVISE_MR_SGE_LIST, std::as_bytes(sges));
  return commands.method(request);
}

Expected<Mw> alloc_mw(Commands& commands, PdHandle pd, std::uint8_t type) {
  ib_uverbs_alloc_mw core{};
  core.pd_handle = pd.value;
  core.mw_type = type;
  ib_uverbs_alloc_mw_resp answer{};
  const auto done = commands.write({.name = "ALLOC_MW",
                                    .number = IB_USER_VERBS_CMD_ALLOC_MW,
                                    .core_in = writable_bytes_of(core),
                                    .core_out = writable_bytes_of(answer)});
  if (!done) return std::unexpected(done.error());
  return Mw{{answer.mw_handle}, answer.rkey};
}

Expected<void> dealloc_mw(Commands& commands, MwHandle mw) {
  Request request(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, "DEALLOC_MW");
  request.handle(UVERBS_ATTR_DESTROY_MW_HANDLE, mw);
  ib_uverbs_dealloc_mw core{.mw_handle = mw.value};
  return commands.destroy(
      request, {.name = "DEALLOC_MW", .number = IB_USER_VERBS_CMD_DEALLOC_MW, .core_in = writable_bytes_of(core)},
      fmt::format("MW handle {}", mw.value));
}

}  // namespace umlx5::uapi
