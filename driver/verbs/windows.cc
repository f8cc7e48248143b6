#include "driver/verbs/windows.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return report_null({EINVAL, fmt::format("memory window: type {} is neither 1 nor 2", static_cast<int>(type))});
  }
  auto native = native_of(pd).alloc_memory_window(static_cast<MemoryWindowType>(type));
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<MwObject>();
  object->mw.context = pd->context;
  object->mw.pd = pd;
  object->mw.rkey = (*native)->rkey();
  object->mw.handle = (*native)->handle().value;
  object->mw.type = type;
  object->native = std::move(*native);
  return &object.release()->mw;
}

int dealloc_mw(ibv_mw* mw) {
  MwObject& object = object_of(mw);
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes) {
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attributes->comp_mask != kNeeded) {
    return report_null(
        {EINVAL, fmt::format("XRC domain: comp_mask is {:#x}; {:#x} is needed", attributes->comp_mask, kNeeded)});
  }
  auto native = native_of(context).open_xrcd(attributes->fd, attributes->oflags);
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<XrcdObject>();
  object->xrcd.context = context;
  object->native = std::move(*native);
  return &object.release()->xrcd;
}

int close_xrcd(ibv_xrcd* xrcd) {
  XrcdObject& object = object_of(xrcd);
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

}  // namespace umlx5::verbs
