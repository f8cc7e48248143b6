#include "driver/verbs/memory_regions.h"

#include <memory>
#include <span>
#include <utility>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

ibv_mr* make_mr(ibv_pd* pd, void* address, std::size_t bytes, Expected<Owned<MemoryRegion>> native) {
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<MrObject>();
  object->mr.context = pd->context;
  object->mr.pd = pd;
  object->mr.addr = address;
  object->mr.length = bytes;
  object->mr.lkey = (*native)->lkey();
  object->mr.rkey = (*native)->rkey();
  object->native = std::move(*native);
  return &object.release()->mr;
}

}  // namespace

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova, unsigned access) {
  if (iova != reinterpret_cast<std::uint64_t>(address)) {
    return unsupported_null("reg_mr with another iova");
  }
  return make_mr(
      pd, address, bytes,
      native_of(pd).register_memory({static_cast<std::byte*>(address), bytes}, AccessFlags::from_bits(access)));
}

int deregister_memory(ibv_mr* mr) {
  MrObject& object = object_of(mr);
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

}  // namespace umlx5::verbs
