// DEVX that libmlx5 exports: the device's own commands, objects and memory.
#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <span>

#include "driver/verbs/devx_object.h"
#include "driver/verbs/fork_ranges.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/devx.h"

namespace umlx5::verbs {
namespace {

struct UmemObject {
  mlx5dv_devx_umem umem{};
  ContextUse context;
  uapi::DevxUmemHandle handle{};
  void* address = nullptr;
  std::size_t bytes = 0;
};
UmemObject& object_of(mlx5dv_devx_umem* umem) { return containing(umem, &UmemObject::umem); }

// A mailbox as programs give it.
std::span<const std::byte> mailbox(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}
std::span<std::byte> mailbox(void* data, std::size_t bytes) { return {static_cast<std::byte*>(data), bytes}; }

mlx5dv_devx_obj* create(ibv_context* context, std::span<const std::byte> in, std::span<std::byte> out) {
  const auto handle = uapi::devx_create(native_of(context).commands(), in, out);
  if (!handle) {
    return report_null(handle.error());
  }
  return new mlx5dv_devx_obj{.context = context, .handle = *handle};
}

int destroy(mlx5dv_devx_obj* object) {
  const int error = result_of(uapi::devx_destroy(native_of(object->context).commands(), object->handle));
  if (error == 0) {
    delete object;
  }
  return error;
}

mlx5dv_devx_umem* register_umem(ibv_context* context, const mlx5dv_devx_umem_in& in) {
  if (in.comp_mask != 0) {
    return report_null({EOPNOTSUPP, fmt::format("DEVX umem: comp_mask {:#x} is not known; 0 is", in.comp_mask)});
  }
  if (ibv_dontfork_range(in.addr, in.size) != 0) {
    return report_null({errno, "DEVX umem: its pages cannot be kept out of children"});
  }
  const auto registered = uapi::devx_register_umem(
      native_of(context).commands(), reinterpret_cast<std::uint64_t>(in.addr), in.size, in.access, in.pgsz_bitmap);
  if (!registered) {
    ibv_dofork_range(in.addr, in.size);
    return report_null(registered.error());
  }
  auto* object = new UmemObject{.umem = {.umem_id = registered->umem_id},
                                .context = context,
                                .handle = registered->handle,
                                .address = in.addr,
                                .bytes = in.size};
  return &object->umem;
}

int deregister_umem(UmemObject& object) {
  const auto result = uapi::devx_deregister_umem(native_of(object.context).commands(), object.handle);
  if (!result) {
    return report(result.error());
  }
  ibv_dofork_range(object.address, object.bytes);
  delete &object;
  return 0;
}

// A verbs object by its handle.
template <typename Tag, typename Verbs>
int query(Verbs* object, std::uint32_t handle, const void* in, std::size_t in_bytes, void* out, std::size_t out_bytes) {
  return result_of(uapi::devx_query(native_of(object->context).commands(), uapi::Handle<Tag>{handle},
                                    mailbox(in, in_bytes), mailbox(out, out_bytes)));
}
template <typename Tag, typename Verbs>
int modify(Verbs* object, std::uint32_t handle, const void* in, std::size_t in_bytes, void* out,
           std::size_t out_bytes) {
  return result_of(uapi::devx_modify(native_of(object->context).commands(), uapi::Handle<Tag>{handle},
                                     mailbox(in, in_bytes), mailbox(out, out_bytes)));
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5;
using namespace umlx5::verbs;

extern "C" {

int mlx5dv_devx_general_cmd(ibv_context* context, const void* in, size_t inlen, void* out, size_t outlen) {
  return result_of(uapi::devx_general(native_of(context).commands(), mailbox(in, inlen), mailbox(out, outlen)));
}

mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context* context, const void* in, size_t inlen, void* out, size_t outlen) {
  return create(context, mailbox(in, inlen), mailbox(out, outlen));
}
int mlx5dv_devx_obj_query(mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out, size_t outlen) {
  return query<uapi::DevxObjectTag>(obj, obj->handle.value, in, inlen, out, outlen);
}
int mlx5dv_devx_obj_modify(mlx5dv_devx_obj* obj, const void* in, size_t inlen, void* out, size_t outlen) {
  return modify<uapi::DevxObjectTag>(obj, obj->handle.value, in, inlen, out, outlen);
}
int mlx5dv_devx_obj_destroy(mlx5dv_devx_obj* obj) { return destroy(obj); }

mlx5dv_devx_umem* mlx5dv_devx_umem_reg(ibv_context* ctx, void* addr, size_t size, uint32_t access) {
  return register_umem(
      ctx, {.addr = addr, .size = size, .access = access, .pgsz_bitmap = 0, .comp_mask = 0, .dmabuf_fd = -1});
}
mlx5dv_devx_umem* mlx5dv_devx_umem_reg_ex(ibv_context* ctx, mlx5dv_devx_umem_in* umem_in) {
  return register_umem(ctx, *umem_in);
}
int mlx5dv_devx_umem_dereg(mlx5dv_devx_umem* umem) { return deregister_umem(object_of(umem)); }

int mlx5dv_devx_query_eqn(ibv_context* context, uint32_t vector, uint32_t* eqn) {
  const auto answer = uapi::devx_query_eqn(native_of(context).commands(), vector);
  if (!answer) {
    return report(answer.error());
  }
  *eqn = *answer;
  return 0;
}

#define UMLX5_DEVX_OF(kind, Verbs, Tag, member)                                                          \
  int mlx5dv_devx_##kind##_query(Verbs* kind, const void* in, size_t inlen, void* out, size_t outlen) {  \
    return query<uapi::Tag>(kind, kind->member, in, inlen, out, outlen);                                 \
  }                                                                                                      \
  int mlx5dv_devx_##kind##_modify(Verbs* kind, const void* in, size_t inlen, void* out, size_t outlen) { \
    return modify<uapi::Tag>(kind, kind->member, in, inlen, out, outlen);                                \
  }
UMLX5_DEVX_OF(cq, ibv_cq, CqTag, handle)
UMLX5_DEVX_OF(qp, ibv_qp, QpTag, handle)
UMLX5_DEVX_OF(srq, ibv_srq, SrqTag, handle)
UMLX5_DEVX_OF(wq, ibv_wq, WqTag, handle)
UMLX5_DEVX_OF(ind_tbl, ibv_rwq_ind_table, RwqIndTableTag, ind_tbl_handle)

}  // extern "C"
