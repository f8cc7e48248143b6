// Protection domains, memory regions and windows, address handles, UAR pages.
#include <fmt/format.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tools/softhca/kernel/log.h"
#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/mkey.h"

namespace softhca::kernel::handlers {
namespace {

namespace prm = umlx5::wqe::prm;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kKnownAccess = ((IB_UVERBS_ACCESS_HUGETLB << 1) - 1) | IB_UVERBS_ACCESS_OPTIONAL_RANGE;
constexpr std::uint32_t kWritableAccess = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                                          IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_MW_BIND;
constexpr std::uint32_t kReregTranslation = 1, kReregPd = 2, kReregAccess = 4;
constexpr std::uint64_t kUarMapCommand = 9;
constexpr std::uint8_t kWindowType1 = 1, kWindowType2 = 2;
constexpr std::uint32_t kKlmAlign = 4;  // entries

// As ib_core of Linux 6.1 on.
int check_access(std::uint32_t access) {
  constexpr std::uint32_t kNeedLocalWrite = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
  const bool lacks_local_write = (access & kNeedLocalWrite) != 0 && (access & IB_UVERBS_ACCESS_LOCAL_WRITE) == 0;
  if (lacks_local_write || (access & ~kKnownAccess) != 0) {
    return EINVAL;
  }
  return (access & IB_UVERBS_ACCESS_ON_DEMAND) != 0 ? EOPNOTSUPP : 0;  // no on-demand paging
}

// The key that the device makes for a region.
// `again`: the key that it replaces and whose number it keeps, 0 if there is none.
std::expected<std::uint32_t, int> create_mkey(Request& request, const Mr& mr, std::uint32_t again = 0) {
  if (const int error = pin_user_memory(mr.start, mr.length, (mr.access & kWritableAccess) != 0); error != 0) {
    return std::unexpected(error);
  }
  const PageRun pages = region_pages(mr.start, mr.iova, mr.length);
  std::vector<std::uint64_t> entries;
  for (const std::uint64_t page : pages.addresses) {
    entries.push_back(page | prm::kMttRead | prm::kMttWrite);
  }
  const auto octowords = static_cast<std::uint32_t>((entries.size() + 1) / 2);
  entries.resize(std::size_t{octowords} * 2);
  const auto variant = again != 0 ? static_cast<std::uint8_t>(again) : request.device().next_mkey_variant();
  prm::CreateMkeyIn in{.header = {.opcode = prm::Opcode::kCreateMkey, .uid = request.uid()}, .mkey_index = again >> 8};
  in.translations_octword_actual_size = octowords;
  in.mkey = {.umr_en = true,
             .a = (mr.access & IB_UVERBS_ACCESS_REMOTE_ATOMIC) != 0,
             .rw = (mr.access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0,
             .rr = (mr.access & IB_UVERBS_ACCESS_REMOTE_READ) != 0,
             .lw = (mr.access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0,
             .lr = true,
             .access_mode_1_0 = static_cast<std::uint8_t>(prm::MkeyMode::kMtt),
             .qpn = prm::kMkeyAnyQp,
             .mkey_7_0 = variant,
             .pd = mr.pd->number,
             .start_addr = mr.iova,
             .len = mr.length,
             .translations_octword_size = octowords,
             .log_page_size = pages.log_page_bytes};
  const auto out = command<prm::ObjectOut>(request.firmware(), in, entries);
  if (!out) {
    return std::unexpected(out.error());
  }
  return out->number << 8 | variant;
}

// Gives a region's key, which peers know, a new meaning. What is refused leaves the key as it was.
std::expected<std::uint32_t, int> replace_mkey(Request& request, Mr& old, const Mr& changed) {
  // All that can be wrong with the new region shows when a key of its own is made for it.
  const auto trial = create_mkey(request, changed);
  if (!trial) {
    return trial;
  }
  if (const int error = command_on_object(request.firmware(), prm::Opcode::kDestroyMkey, request.uid(), *trial >> 8);
      error != 0) {
    return std::unexpected(error);
  }
  if (const int error = old.release(request.device()); error != 0) {
    return std::unexpected(error);
  }
  return create_mkey(request, changed, old.key);
}

template <typename T>
int destroy_by_handle(Request& request, std::uint32_t handle) {
  T* const object = request.file().find<T>(handle);
  if (object == nullptr) {
    return ENOENT;
  }
  const auto counts = request.file().destroy(*object);
  return counts ? 0 : counts.error();
}

}  // namespace

int alloc_pd(Request& request) {
  const auto pdn = allocate(request.firmware(), prm::Opcode::kAllocPd, request.uid());
  if (!pdn) {
    return pdn.error();
  }
  const std::uint32_t handle = request.adopt(std::make_unique<Pd>(request.uid(), *pdn));
  const mlx5_ib_alloc_pd_resp driver{.pdn = *pdn};
  if (const int error = request.put_driver(&driver, sizeof driver); error != 0) {
    return error;
  }
  return request.put_core(handle);
}

int write_dealloc_pd(Request& request) {
  ib_uverbs_dealloc_pd asked{};
  const int error = request.get_core(asked);
  return error != 0 ? error : destroy_by_handle<Pd>(request, asked.pd_handle);
}

int query_pd(Request& request) {
  return request.put_value(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, request.object<Pd>(MLX5_IB_ATTR_QUERY_PD_HANDLE)->number);
}

int reg_mr(Request& request) {
  ib_uverbs_reg_mr asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if ((asked.start ^ asked.hca_va) % kPageBytes != 0) {
    return EINVAL;
  }
  auto mr = std::make_unique<Mr>(request.uid());
  mr->pd = request.file().find<Pd>(asked.pd_handle);
  if (mr->pd == nullptr) {
    return EINVAL;
  }
  if (const int error = check_access(asked.access_flags); error != 0) {
    return error;
  }
  mr->start = asked.start;
  mr->length = asked.length;
  mr->iova = asked.hca_va;
  mr->access = asked.access_flags;
  const auto key = create_mkey(request, *mr);
  if (!key) {
    return key.error();
  }
  mr->key = *key;
  mr->use(mr->pd);
  const std::uint32_t handle = request.adopt(std::move(mr));
  struct Response {
    std::uint32_t handle, lkey, rkey;
  };
  return request.put_core(Response{handle, *key, *key});
}

int rereg_mr(Request& request) {
  ib_uverbs_rereg_mr asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if (asked.flags == 0) {
    return EINVAL;
  }
  if ((asked.flags & ~(kReregTranslation | kReregPd | kReregAccess)) != 0) {
    return EOPNOTSUPP;
  }
  Mr* const old = request.file().find<Mr>(asked.mr_handle);
  if (old != nullptr && old->on_device) {
    return EOPNOTSUPP;
  }
  if (old == nullptr || ((asked.flags & kReregTranslation) != 0 && (asked.start ^ asked.hca_va) % kPageBytes != 0)) {
    return EINVAL;
  }
  if (const int error = (asked.flags & kReregAccess) != 0 ? check_access(asked.access_flags) : 0; error != 0) {
    return error;
  }
  Mr changed(request.uid());
  changed.pd = (asked.flags & kReregPd) != 0 ? request.file().find<Pd>(asked.pd_handle) : old->pd;
  changed.access = (asked.flags & kReregAccess) != 0 ? asked.access_flags : old->access;
  const bool moves = (asked.flags & kReregTranslation) != 0;
  changed.start = moves ? asked.start : old->start;
  changed.length = moves ? asked.length : old->length;
  changed.iova = moves ? asked.hca_va : old->iova;
  if (changed.pd == nullptr) {
    return EINVAL;
  }
  const auto key = replace_mkey(request, *old, changed);
  if (!key) {
    return key.error();
  }
  old->access = changed.access;
  old->start = changed.start;
  old->length = changed.length;
  old->iova = changed.iova;
  if (old->pd != changed.pd) {
    old->pd = changed.pd;
    old->use_only(changed.pd);
  }
  struct Response {
    std::uint32_t lkey, rkey;
  };
  return request.put_core(Response{*key, *key});
}

int write_dereg_mr(Request& request) {
  ib_uverbs_dereg_mr asked{};
  const int error = request.get_core(asked);
  return error != 0 ? error : destroy_by_handle<Mr>(request, asked.mr_handle);
}

int query_mr(Request& request) {
  const Mr& mr = *request.object<Mr>(UVERBS_ATTR_QUERY_MR_HANDLE);
  int error = request.put_value(UVERBS_ATTR_QUERY_MR_RESP_LKEY, mr.key);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_QUERY_MR_RESP_RKEY, mr.key);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, mr.length);
  return error != 0 || !request.has(UVERBS_ATTR_QUERY_MR_RESP_IOVA)
             ? error
             : request.put_value(UVERBS_ATTR_QUERY_MR_RESP_IOVA, mr.iova);
}

int alloc_mw(Request& request) {
  ib_uverbs_alloc_mw asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  mlx5_ib_alloc_mw driver{};
  request.get_driver(driver);
  if (driver.comp_mask != 0 || driver.reserved1 != 0 || driver.reserved2 != 0 ||
      !request.driver_in_is_zero_from(sizeof driver)) {
    return EOPNOTSUPP;
  }
  if (!request.device().caps().imaicl) {
    return EOPNOTSUPP;
  }
  const Pd* const pd = request.file().find<Pd>(asked.pd_handle);
  if (pd == nullptr || (asked.mw_type != kWindowType1 && asked.mw_type != kWindowType2)) {
    return EINVAL;
  }
  const std::uint8_t variant = request.device().next_mkey_variant();
  prm::CreateMkeyIn in{.header = {.opcode = prm::Opcode::kCreateMkey, .uid = request.uid()}};
  in.mkey = {.free = true,
             .umr_en = true,
             .lr = true,
             .access_mode_1_0 = static_cast<std::uint8_t>(prm::MkeyMode::kKlm),
             .qpn = prm::kMkeyAnyQp,
             .mkey_7_0 = variant,
             .en_rinval = asked.mw_type == kWindowType2,
             .pd = pd->number,
             .translations_octword_size = driver.num_klms <= kKlmAlign ? kKlmAlign : (driver.num_klms + 3u) & ~3u};
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  if (!out) {
    return out.error();
  }
  const std::uint32_t key = out->number << 8 | variant;
  auto window = std::make_unique<Mw>(request.uid(), key);
  window->use(request.file().find<Pd>(asked.pd_handle));
  const std::uint32_t handle = request.adopt(std::move(window));
  struct Response {
    std::uint32_t handle, rkey;
  };
  return request.put_core(Response{handle, key});
}

int write_dealloc_mw(Request& request) {
  struct {
    std::uint32_t mw_handle;
  } asked{};
  const int error = request.get_core(asked);
  return error != 0 ? error : destroy_by_handle<Mw>(request, asked.mw_handle);
}

int create_ah(Request& request) {
  struct Asked {
    std::uint64_t response, user_handle;
    std::uint32_t pd_handle, reserved;
    ib_uverbs_ah_attr attr;
  } asked{};
  static_assert(sizeof asked == 56);
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  struct DriverResponse {
    std::uint32_t response_length;
    std::array<std::uint8_t, 6> mac;
    std::array<std::uint8_t, 6> reserved;
  } driver{};
  constexpr std::size_t kNeeded = offsetof(DriverResponse, reserved);
  Pd* const pd = request.file().find<Pd>(asked.pd_handle);
  // RoCE: every path has a GRH.
  if (pd == nullptr || asked.attr.port_num != 1 || asked.attr.is_global == 0 ||
      !request.device().gid(asked.attr.grh.sgid_index) || request.driver_out_bytes() < kNeeded) {
    return EINVAL;
  }
  Gid destination{};
  std::memcpy(destination.data(), asked.attr.grh.dgid, destination.size());
  const auto mac = mac_of_gid(destination);
  if (!mac) {
    return ENETUNREACH;
  }
  auto ah = std::make_unique<Ah>(request.uid());
  ah->use(pd);
  driver.response_length = kNeeded;
  driver.mac = *mac;
  const std::uint32_t handle = request.adopt(std::move(ah));
  const int error = request.put_driver(&driver, kNeeded);
  return error != 0 ? error : request.put_core(handle);
}

int write_destroy_ah(Request& request) {
  struct {
    std::uint32_t ah_handle;
  } asked{};
  const int error = request.get_core(asked);
  return error != 0 ? error : destroy_by_handle<Ah>(request, asked.ah_handle);
}

int alloc_uar(Request& request) {
  const auto type = request.value<std::uint64_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
  if (type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC) {
    return EOPNOTSUPP;
  }
  const auto index = allocate(request.firmware(), prm::Opcode::kAllocUar, request.uid());
  if (!index) {
    return index.error();
  }
  const std::uint32_t handle = request.adopt(std::make_unique<Uar>(request.uid(), *index));
  const std::uint64_t page = std::uint64_t{*index >> 8} << 16 | kUarMapCommand << 8 | (*index & 0xff);
  int error = request.put_handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, handle);
  error = error != 0 ? error : request.put_value(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, page * kPageBytes);
  error = error != 0 ? error : request.put_value(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, std::uint32_t{kPageBytes});
  return error != 0 ? error : request.put_value(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, *index);
}

}  // namespace softhca::kernel::handlers
