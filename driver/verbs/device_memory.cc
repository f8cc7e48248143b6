#include "driver/verbs/device_memory.h"

#include <fmt/format.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <utility>

#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::size_t kWordBytes = 4;

// The device's memory takes whole words only. 0 or errno.
int check_access(const DmObject& object, std::uint64_t offset, std::size_t length) {
  if (offset > object.native.length_bytes || length > object.native.length_bytes - offset) {
    return report({EFAULT, fmt::format("DM: {} bytes at {} are not all in its {} bytes", length, offset,
                                       object.native.length_bytes)});
  }
  if (offset % kWordBytes != 0 || length % kWordBytes != 0) {
    return report({EINVAL, fmt::format("DM: {} bytes at {} are not whole words of 4 bytes", length, offset)});
  }
  return 0;
}

void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kWordBytes) {
    std::uint32_t word = 0;
    std::copy_n(from + i, kWordBytes, std::as_writable_bytes(std::span(&word, 1)).begin());
    *reinterpret_cast<volatile std::uint32_t*>(to + i) = word;
  }
}

int copy_to(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t length) {
  const DmObject& object = object_of(dm);
  const int error = check_access(object, offset, length);
  if (error == 0) {
    copy_words(object.memory() + offset, static_cast<const std::byte*>(from), length);
  }
  return error;
}

int copy_from(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  const DmObject& object = object_of(dm);
  const int error = check_access(object, offset, length);
  for (std::size_t i = 0; error == 0 && i < length; i += kWordBytes) {
    const std::uint32_t word = *reinterpret_cast<volatile std::uint32_t*>(object.memory() + offset + i);
    std::ranges::copy(std::as_bytes(std::span(&word, 1)), static_cast<std::byte*>(to) + i);
  }
  return error;
}

// Maps it for the program.
ibv_dm* make_dm(ibv_context* context, const uapi::Dm& native) {
  auto mapping = uapi::map_dm(native_of(context).commands().channel(), native);
  if (!mapping) {
    return report_null(mapping.error());
  }
  auto object = std::make_unique<DmObject>();
  object->dm.context = context;
  object->dm.handle = native.handle.value;
  object->dm.memcpy_to_dm = copy_to;
  object->dm.memcpy_from_dm = copy_from;
  object->native = native;
  object->mapping = std::move(*mapping);
  return &object.release()->dm;
}

}  // namespace

ibv_dm* alloc_device_memory(ibv_context* context, const ibv_alloc_dm_attr& attributes, std::uint32_t type) {
  if (attributes.comp_mask != 0) {
    return report_null({EINVAL, fmt::format("DM: the mask {:#x} is not known", attributes.comp_mask)});
  }
  uapi::Commands& commands = native_of(context).commands();
  const auto native = uapi::alloc_dm(commands, attributes.length, attributes.log_align_req, type);
  if (!native) {
    return report_null(native.error());
  }
  ibv_dm* const dm = make_dm(context, *native);
  if (dm == nullptr) {
    const int error = errno;
    static_cast<void>(uapi::free_dm(commands, native->handle));
    errno = error;
  }
  return dm;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes) {
  return alloc_device_memory(context, *attributes, MLX5_IB_UAPI_DM_TYPE_MEMIC);
}

int free_dm(ibv_dm* dm) {
  DmObject& object = object_of(dm);
  if (auto freed = uapi::free_dm(native_of(dm->context).commands(), object.native.handle); !freed) {
    return report(freed.error());
  }
  delete &object;
  return 0;
}

ibv_mr* register_dm(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length, unsigned access) {
  const auto native = uapi::register_dm_mr(native_of(pd->context).commands(), {.pd = native_of(pd).handle(),
                                                                               .dm = object_of(dm).native.handle,
                                                                               .offset_bytes = offset,
                                                                               .length_bytes = length,
                                                                               .access = access});
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<MrObject>();
  object->mr.context = pd->context;
  object->mr.pd = pd;
  object->mr.length = length;
  object->mr.handle = native->handle.value;
  object->mr.lkey = native->lkey;
  object->mr.rkey = native->rkey;
  object->on_device = true;
  return &object.release()->mr;
}

ibv_dm* import_dm(ibv_context* context, std::uint32_t handle) {
  const auto native = uapi::query_dm(native_of(context).commands(), {handle});
  return native ? make_dm(context, *native) : report_null(native.error());
}

void unimport_dm(ibv_dm* dm) { delete &object_of(dm); }

}  // namespace umlx5::verbs
