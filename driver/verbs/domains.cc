#include "driver/verbs/domains.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr std::uint32_t kParentDomainMasks =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

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

}  // namespace

ibv_pd* alloc_pd(ibv_context* context) {
  auto native = native_of(context).alloc_pd();
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

int dealloc_pd(ibv_pd* pd) {
  PdObject& object = object_of(pd);
  if (const int users = object.users.load(); users != 0) {
    return report({EBUSY, fmt::format("PD: {} parent domains are over it", users)});
  }
  if (object.behind != nullptr) {
    return dealloc_parent_domain(object);
  }
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
  auto* object = new TdObject;
  object->td.context = context;
  return &object->td;
}

int dealloc_td(ibv_td* td) {
  TdObject& object = object_of(td);
  if (const int users = object.users.load(); users != 0) {
    return report({EBUSY, fmt::format("thread domain: {} parent domains use it", users)});
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
    object->alloc = attributes->alloc;
    object->free = attributes->free;
  }
  if ((attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) {
    object->pd_context = attributes->pd_context;
  }
  return &object.release()->pd;
}

}  // namespace umlx5::verbs
