#include "driver/verbs/memory_regions.h"

#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "driver/verbs/fork_ranges.h"
#include "driver/verbs/objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

constexpr unsigned kReregFlags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;

std::unique_ptr<MrObject> make_object(ibv_pd* pd, void* address, std::size_t bytes) {
  auto object = std::make_unique<MrObject>();
  object->mr.context = pd->context;
  object->mr.pd = pd;
  object->mr.addr = address;
  object->mr.length = bytes;
  return object;
}

ibv_mr* make_mr(ibv_pd* pd, void* address, std::size_t bytes, Expected<Owned<MemoryRegion>> native) {
  if (!native) {
    return report_null(native.error());
  }
  auto object = make_object(pd, address, bytes);
  object->mr.handle = (*native)->handle().value;
  object->mr.lkey = (*native)->lkey();
  object->mr.rkey = (*native)->rkey();
  object->native = std::move(*native);
  return &object.release()->mr;
}

Expected<void> check_change(unsigned flags, void* address, std::size_t bytes, unsigned access) {
  if ((flags & ~kReregFlags) != 0) {
    return fail(EINVAL, fmt::format("MR change: flags {:#x} are not known", flags));
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || bytes == 0)) {
    return fail(EINVAL, "MR change: a new translation needs an address and a length");
  }
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) {
    return fail(EINVAL, "MR change: access is given without IBV_REREG_MR_CHANGE_ACCESS");
  }
  return {};
}

MemoryChange to_change(unsigned flags, ibv_pd* pd, void* address, std::size_t bytes, unsigned access) {
  MemoryChange change;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    const auto where = reinterpret_cast<std::uint64_t>(address);
    change.translation = {.address = where, .length_bytes = bytes, .iova = where};
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    change.pd = &native_of(pd);
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    change.access = AccessFlags::from_bits(access);
  }
  return change;
}

// What the program sees of a region that has changed. 0, or the value for old pages that children never see again.
int take_over(MrObject& object, unsigned flags, ibv_pd* pd, void* address, std::size_t bytes) {
  object.mr.lkey = object.native->lkey();
  object.mr.rkey = object.native->rkey();
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    object.mr.pd = pd;
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) == 0) {
    return 0;
  }
  void* const old_address = std::exchange(object.mr.addr, address);
  const std::size_t old_bytes = std::exchange(object.mr.length, bytes);
  const bool was_kept = std::exchange(object.kept_out_of_children, true);
  return was_kept && ibv_dofork_range(old_address, old_bytes) != 0 ? IBV_REREG_MR_ERR_DO_FORK_OLD : 0;
}

}  // namespace

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova, unsigned access) {
  Context& context = native_of(pd->context);
  if ((context.kernel_info().core_support & IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS) == 0) {
    access &= ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  }
  const bool pinned = (access & IBV_ACCESS_ON_DEMAND) == 0;
  if (pinned && ibv_dontfork_range(address, bytes) != 0) {
    return nullptr;
  }
  ibv_mr* mr = make_mr(pd, address, bytes,
                       native_of(pd).register_memory({.address = reinterpret_cast<std::uint64_t>(address),
                                                      .length_bytes = bytes,
                                                      .iova = iova,
                                                      .access = AccessFlags::from_bits(access)}));
  if (mr != nullptr) {
    object_of(mr).kept_out_of_children = pinned;
  } else if (pinned) {
    const int error = errno;
    ibv_dofork_range(address, bytes);
    errno = error;
  }
  return mr;
}

ibv_mr* register_dmabuf(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t iova, int fd,
                        unsigned access) {
  return make_mr(pd, nullptr, bytes,
                 native_of(pd).register_dmabuf({.fd = fd,
                                                .offset_bytes = offset,
                                                .length_bytes = bytes,
                                                .iova = iova,
                                                .access = AccessFlags::from_bits(access)}));
}

int reregister_memory(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes, unsigned access) {
  MrObject& object = object_of(mr);
  const auto bits = static_cast<unsigned>(flags);
  if (auto result = check_change(bits, address, bytes, access); !result) {
    report(result.error());
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (!object.native) {
    report({EINVAL, "MR change: an imported region, or one without memory or of the device's, cannot be changed"});
    return IBV_REREG_MR_ERR_INPUT;
  }
  const bool moves = (bits & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (moves && ibv_dontfork_range(address, bytes) != 0) {
    return IBV_REREG_MR_ERR_DONT_FORK_NEW;
  }
  if (auto result = object.native->reregister(to_change(bits, pd, address, bytes, access)); !result) {
    const bool stuck = moves && ibv_dofork_range(address, bytes) != 0;
    report(result.error());
    return stuck ? IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW : IBV_REREG_MR_ERR_CMD;
  }
  return take_over(object, bits, pd, address, bytes);
}

int deregister_memory(ibv_mr* mr) {
  MrObject& object = object_of(mr);
  const auto result = object.imported || object.on_device
                          ? uapi::deregister_mr(native_of(mr->context).commands(), {mr->handle})
                          : object.native.destroy();
  if (!result) {
    return report(result.error());
  }
  if (object.kept_out_of_children) {
    ibv_dofork_range(mr->addr, mr->length);
  }
  delete &object;
  return 0;
}

ibv_mr* alloc_null_region(ibv_pd* pd) {
  const mlx5_ib_alloc_ucontext_resp& kernel = native_of(pd->context).kernel_info().device;
  if ((kernel.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY) == 0) {
    return report_null({EOPNOTSUPP, "null MR: the device has no key that reads as zeros"});
  }
  auto object = make_object(pd, nullptr, SIZE_MAX);
  object->mr.lkey = kernel.dump_fill_mkey;
  return &object.release()->mr;
}

int advise_memory(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list, std::uint32_t count) {
  std::vector<ib_uverbs_sge> sges(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    sges[i] = {.addr = list[i].addr, .length = list[i].length, .lkey = list[i].lkey};
  }
  return result_of(uapi::advise_mr(native_of(pd->context).commands(), native_of(pd).handle(),
                                   static_cast<std::uint32_t>(advice), flags, sges));
}

ibv_mr* import_region(ibv_pd* pd, std::uint32_t handle) {
  const auto answer = uapi::query_mr(native_of(pd->context).commands(), {handle});
  if (!answer) {
    return report_null(answer.error());
  }
  auto object = make_object(pd, nullptr, answer->length_bytes);
  object->mr.handle = handle;
  object->mr.lkey = answer->lkey;
  object->mr.rkey = answer->rkey;
  object->imported = true;
  return &object.release()->mr;
}

void unimport_region(ibv_mr* mr) { delete &object_of(mr); }

}  // namespace umlx5::verbs
