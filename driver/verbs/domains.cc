#include "driver/verbs/domains.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint32_t kParentDomainMasks =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

// The program's functions as the driver's allocator. IBV_ALLOCATOR_USE_DEFAULT leaves the memory to the driver.
class DomainAllocator final : public Allocator {
 public:
  DomainAllocator(ibv_pd* pd, const ibv_parent_domain_init_attr& attributes)
      : pd_(pd),
        alloc_(attributes.alloc),
        free_(attributes.free),
        context_((attributes.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0 ? attributes.pd_context
                                                                                      : nullptr) {}

  std::optional<void*> allocate(MemoryUse use, std::size_t bytes, std::size_t alignment_bytes) override {
    void* memory = alloc_(pd_, context_, bytes, alignment_bytes, resource_type(use));
    return memory == IBV_ALLOCATOR_USE_DEFAULT ? std::nullopt : std::optional(memory);
  }
  void release(MemoryUse use, void* memory) override { free_(pd_, context_, memory, resource_type(use)); }

 private:
  static std::uint64_t resource_type(MemoryUse use) {
    return std::uint64_t{RDMA_DRIVER_MLX5} << 32 | static_cast<std::uint32_t>(use);
  }
  static_assert((std::uint64_t{RDMA_DRIVER_MLX5} << 32 | 1) == MLX5DV_RES_TYPE_QP);
  static_assert(static_cast<std::uint32_t>(MLX5DV_RES_TYPE_CQ) == static_cast<std::uint32_t>(MemoryUse::kCq));

  ibv_pd* pd_;
  void* (*alloc_)(ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t);
  void (*free_)(ibv_pd*, void*, void*, std::uint64_t);
  void* context_;
};

Expected<void> check(const ibv_parent_domain_init_attr& attributes) {
  if (attributes.pd == nullptr) {
    return fail(EINVAL, "parent domain: it needs a protection domain");
  }
  if ((attributes.comp_mask & ~kParentDomainMasks) != 0) {
    return fail(EINVAL, fmt::format("parent domain: comp_mask {:#x} has bits besides {:#x}", attributes.comp_mask,
                                    kParentDomainMasks));
  }
  const bool allocators = (attributes.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocators && (attributes.alloc == nullptr || attributes.free == nullptr)) {
    return fail(EINVAL, "parent domain: allocators come in pairs, alloc and free");
  }
  return {};
}

int dealloc_parent_domain(PdObject& object) {
  object.behind->users.fetch_sub(1);
  if (object.thread_domain != nullptr) {
    object.thread_domain->users.fetch_sub(1);
  }
  delete &object;
  return 0;
}

ibv_pd* make_pd(ibv_context* context, Expected<Owned<Pd>> native) {
  if (!native) {
    return report_null(native.error());
  }
  auto object = std::make_unique<PdObject>();
  object->pd.context = context;
  object->pd.handle = (*native)->handle().value;
  object->native = native->get();
  object->owned = std::move(*native);
  return &object.release()->pd;
}

}  // namespace

ibv_pd* alloc_pd(ibv_context* context) { return make_pd(context, native_of(context).alloc_pd()); }

ibv_pd* import_pd(ibv_context* context, std::uint32_t handle) {
  return make_pd(context, native_of(context).import_pd({handle}));
}

void unimport_pd(ibv_pd* pd) {
  PdObject& object = object_of(pd);
  object.native->end_in_kernel(false);
  delete &object;
}

int dealloc_pd(ibv_pd* pd) {
  PdObject& object = object_of(pd);
  if (const int users = object.users.load(); users != 0) {
    return report({EBUSY, fmt::format("PD: {} parent domains are over it", users)});
  }
  if (object.behind != nullptr) {
    return dealloc_parent_domain(object);
  }
  object.native->end_in_kernel(true);
  if (const int error = result_of(object.owned.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes) {
  if (attributes->comp_mask != 0) {
    return report_null(
        {EINVAL, fmt::format("thread domain: comp_mask {:#x} is not known; 0 is", attributes->comp_mask)});
  }
  auto native = native_of(context).create_thread_domain();
  if (!native) {
    return report_null(native.error());
  }
  auto* object = new TdObject;
  object->td.context = context;
  object->native = std::move(*native);
  return &object->td;
}

int dealloc_td(ibv_td* td) {
  TdObject& object = object_of(td);
  if (const int users = object.users.load(); users != 0) {
    return report({EBUSY, fmt::format("thread domain: {} parent domains use it", users)});
  }
  if (const int error = result_of(object.native.destroy()); error != 0) {
    return error;
  }
  delete &object;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes) {
  if (auto result = check(*attributes); !result) {
    return report_null(result.error());
  }
  auto object = std::make_unique<PdObject>();
  PdObject& behind = object_of(attributes->pd);
  object->pd.context = context;
  object->pd.handle = attributes->pd->handle;
  object->native = behind.native;
  object->behind = &behind;
  behind.users.fetch_add(1);
  if (attributes->td != nullptr) {
    object->thread_domain = &object_of(attributes->td);
    object->thread_domain->users.fetch_add(1);
    object->single_threaded = true;
  }
  if ((attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    object->allocator = std::make_unique<DomainAllocator>(&object->pd, *attributes);
  }
  return &object.release()->pd;
}

}  // namespace umlx5::verbs
