// Devices and contexts that libmlx5 exports.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "driver/verbs/device_query.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"
#include "uapi/device_objects.h"

namespace umlx5::verbs {
namespace {

ibv_context* open(ibv_device* device, const mlx5dv_context_attr& attributes) {
  if (attributes.comp_mask != 0 || (attributes.flags & ~MLX5DV_CONTEXT_FLAGS_DEVX) != 0) {
    return report_null({EINVAL, fmt::format("open {}: comp_mask {:#x} or flags {:#x} are not known", device->name,
                                            attributes.comp_mask, attributes.flags)});
  }
  DeviceObject& object = object_of(device);
  ContextObject* context = object.open(object, {.devx_required = (attributes.flags & MLX5DV_CONTEXT_FLAGS_DEVX) != 0});
  return context == nullptr ? nullptr : &context->verbs.context;
}

int query_port_identity(ibv_context* context, std::uint32_t port, void* info, std::size_t info_bytes) {
  const auto answer = uapi::query_mlx5_port(native_of(context).commands(), port);
  if (!answer) {
    return report(answer.error());
  }
  std::memset(info, 0, info_bytes);
  std::memcpy(info, &*answer, std::min(info_bytes, sizeof *answer));
  return 0;
}

int get_clock_info(ibv_context* context, mlx5dv_clock_info* info) {
  ContextObject& object = object_of(context);
  const auto snapshot = object.clocks.snapshot(*object.native);
  if (!snapshot) {
    return report(snapshot.error());
  }
  *info = *snapshot;
  return 0;
}

class ContextAllocator final : public Allocator {
 public:
  explicit ContextAllocator(const mlx5dv_ctx_allocators& program) : program_(program) {}
  std::optional<void*> allocate(MemoryUse, std::size_t bytes, std::size_t) override {
    return program_.alloc(bytes, program_.data);
  }
  void release(MemoryUse, void* memory) override { program_.free(memory, program_.data); }

 private:
  mlx5dv_ctx_allocators program_;
};

int set_allocators(ContextObject& context, const mlx5dv_ctx_allocators& allocators) {
  if (allocators.alloc == nullptr || allocators.free == nullptr) {
    return report({EINVAL, "context attribute: allocators come in pairs, alloc and free"});
  }
  context.allocator = std::make_unique<ContextAllocator>(allocators);
  return 0;
}

}  // namespace
}  // namespace umlx5::verbs

using namespace umlx5::verbs;

extern "C" {

// Every device of this libibverbs is an mlx5 one.
bool mlx5dv_is_supported(ibv_device*) { return true; }

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) { return open(device, *attr); }

int mlx5dv_query_device(ibv_context* ctx_in, mlx5dv_context* attrs_out) { return query_mlx5_device(ctx_in, attrs_out); }

int _mlx5dv_query_port(ibv_context* context, uint32_t port_num, mlx5dv_port* info, size_t info_len) {
  return query_port_identity(context, port_num, info, info_len);
}

int mlx5dv_get_clock_info(ibv_context* context, mlx5dv_clock_info* clock_info) {
  return get_clock_info(context, clock_info);
}

int mlx5dv_set_context_attr(ibv_context* context, mlx5dv_set_ctx_attr_type type, void* attr) {
  if (type != MLX5DV_CTX_ATTR_BUF_ALLOCATORS) {
    return unsupported("mlx5dv_set_context_attr of this type");
  }
  return set_allocators(object_of(context), *static_cast<const mlx5dv_ctx_allocators*>(attr));
}

}  // extern "C"
