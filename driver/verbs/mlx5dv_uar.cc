// Pages of the device that programs ring for themselves, and entries of its rate table, that libmlx5 exports.
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/device_objects.h"
#include "uapi/uar.h"

namespace umlx5::verbs {
namespace {

// Where a UAR page has its first BlueFlame or doorbell register (Programmer's Reference Manual, UAR page format).
constexpr std::size_t kRegisterOffset = 0x800;

struct UarObject {
  mlx5dv_devx_uar uar{};
  ContextUse context;
  uapi::UarHandle handle{};
  uapi::Mapping mapping{};
};

struct VarObject {
  mlx5dv_var var{};
  ContextUse context;
  uapi::VarHandle handle{};
};

struct PpObject {
  mlx5dv_pp pp{};
  ContextUse context;
  uapi::PpHandle handle{};
};

mlx5dv_devx_uar* alloc_uar(ibv_context* context, std::uint32_t flags) {
  if (flags != MLX5DV_UAR_ALLOC_TYPE_BF && flags != MLX5DV_UAR_ALLOC_TYPE_NC) {
    return report_null({EOPNOTSUPP, fmt::format("DEVX UAR: flags {:#x} are not known", flags)});
  }
  Context& native = native_of(context);
  const auto uar = uapi::alloc_uar(native.commands(), static_cast<uapi::UarType>(flags));
  if (!uar) {
    return report_null(uar.error());
  }
  auto mapping = uapi::map_uar(native.commands().channel(), *uar);
  if (!mapping) {
    (void)uapi::destroy_uar(native.commands(), uar->handle);
    return report_null(mapping.error());
  }
  auto* object = new UarObject{.context = context, .handle = uar->handle, .mapping = std::move(*mapping)};
  object->uar.base_addr = object->mapping.address();
  object->uar.reg_addr = object->mapping.address() + kRegisterOffset;
  object->uar.page_id = uar->page_id;
  object->uar.mmap_off = static_cast<off_t>(uar->mmap_offset_bytes);
  return &object->uar;
}

void free_uar(UarObject& object) {
  object.mapping = {};  // the kernel keeps the page while it is mapped
  result_of(uapi::destroy_uar(native_of(object.context).commands(), object.handle));
  delete &object;
}

mlx5dv_var* alloc_var(ibv_context* context, std::uint32_t flags) {
  if (flags != 0) {
    return report_null({EOPNOTSUPP, fmt::format("VAR: flags {:#x} are not known; 0 is", flags)});
  }
  const auto var = uapi::alloc_var(native_of(context).commands());
  if (!var) {
    return report_null(var.error());
  }
  auto* object = new VarObject{.var = {.page_id = var->page_id,
                                       .length = var->mmap_length_bytes,
                                       .mmap_off = static_cast<off_t>(var->mmap_offset_bytes),
                                       .comp_mask = 0},
                               .context = context,
                               .handle = var->handle};
  return &object->var;
}

mlx5dv_pp* alloc_pp(ibv_context* context, std::span<const std::byte> entry, std::uint32_t flags) {
  const auto pp = uapi::alloc_pp(native_of(context).commands(), entry, flags);
  if (!pp) {
    return report_null(pp.error());
  }
  auto* object = new PpObject{.pp = {.index = pp->index}, .context = context, .handle = pp->handle};
  return &object->pp;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5;
using namespace umlx5::verbs;

extern "C" {

mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context* context, uint32_t flags) { return alloc_uar(context, flags); }
void mlx5dv_devx_free_uar(mlx5dv_devx_uar* devx_uar) { free_uar(containing(devx_uar, &UarObject::uar)); }

mlx5dv_var* mlx5dv_alloc_var(ibv_context* context, uint32_t flags) { return alloc_var(context, flags); }
void mlx5dv_free_var(mlx5dv_var* dv_var) {
  VarObject& object = containing(dv_var, &VarObject::var);
  result_of(uapi::destroy_var(native_of(object.context).commands(), object.handle));
  delete &object;
}

mlx5dv_pp* mlx5dv_pp_alloc(ibv_context* context, size_t pp_context_sz, const void* pp_context, uint32_t flags) {
  return alloc_pp(context, {static_cast<const std::byte*>(pp_context), pp_context_sz}, flags);
}
void mlx5dv_pp_free(mlx5dv_pp* pp) {
  PpObject& object = containing(pp, &PpObject::pp);
  result_of(uapi::destroy_pp(native_of(object.context).commands(), object.handle));
  delete &object;
}

}  // extern "C"
