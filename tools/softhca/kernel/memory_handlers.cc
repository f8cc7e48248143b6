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
constexpr std::uint32_t kKlmAlign = 4;                               // entries
constexpr std::uint64_t kMostShiftedBytes = std::uint64_t{1} << 34;  // of a region on demand that needs small pages

// As ib_core of Linux 6.1 on.
int check_access(Request& request, std::uint32_t access) {
  constexpr std::uint32_t kNeedLocalWrite = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
  const bool lacks_local_write = (access & kNeedLocalWrite) != 0 && (access & IB_UVERBS_ACCESS_LOCAL_WRITE) == 0;
  if (lacks_local_write || (access & ~kKnownAccess) != 0) {
    return EINVAL;
  }
  return (access & IB_UVERBS_ACCESS_ON_DEMAND) != 0 && !request.device().caps().odp ? EOPNOTSUPP : 0;
}

std::uint8_t variant_of(Request& request, std::uint32_t again) {
  return again != 0 ? static_cast<std::uint8_t>(again) : request.device().next_mkey_variant();
}

void set_rights(prm::MkeyContext& mkey, std::uint32_t access) {
  mkey.a = (access & IB_UVERBS_ACCESS_REMOTE_ATOMIC) != 0;
  mkey.rw = (access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0;
  mkey.rr = (access & IB_UVERBS_ACCESS_REMOTE_READ) != 0;
  mkey.lw = (access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0;
  mkey.lr = true;
}

// The whole address space, on demand.
bool is_implicit(std::uint32_t access, std::uint64_t start, std::uint64_t length) {
  return (access & IB_UVERBS_ACCESS_ON_DEMAND) != 0 && start == 0 && length == ~std::uint64_t{0};
}
bool is_implicit(const Mr& mr) { return is_implicit(mr.access, mr.start, mr.length); }

std::expected<std::uint32_t, int> create_implicit_mkey(Request& request, const Mr& mr, std::uint32_t again) {
  if (mr.iova != 0 || !request.device().caps().implicit_odp) {
    return std::unexpected(EINVAL);
  }
  const std::uint8_t variant = variant_of(request, again);
  // Addresses that go to memory as they are: the privilege of the kernel, to which the key belongs.
  prm::CreateMkeyIn in{.header = {.opcode = prm::Opcode::kCreateMkey}, .mkey_index = again >> 8};
  in.mkey = {.access_mode_1_0 = static_cast<std::uint8_t>(prm::MkeyMode::kPa),
             .qpn = prm::kMkeyAnyQp,
             .mkey_7_0 = variant,
             .length64 = true,
             .pd = mr.pd->number};
  set_rights(in.mkey, mr.access);
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  if (!out) {
    return std::unexpected(out.error());
  }
  return out->number << 8 | variant;
}

// The key that the device makes for a region.
// `again`: the key that it replaces and whose number it keeps, 0 if there is none.
std::expected<std::uint32_t, int> create_mkey(Request& request, const Mr& mr, std::uint32_t again = 0) {
  if (is_request_of_another_process()) {
    return std::unexpected(EIO);  // also where nothing is pinned
  }
  if (is_implicit(mr)) {
    return create_implicit_mkey(request, mr, again);
  }
  // Pages that are to come on demand are whatever is there when the device looks.
  const bool on_demand = (mr.access & IB_UVERBS_ACCESS_ON_DEMAND) != 0;
  const int error = on_demand ? 0 : pin_user_memory(mr.start, mr.length, (mr.access & kWritableAccess) != 0);
  if (error != 0) {
    return std::unexpected(error);
  }
  // Without pinning, nothing else bounds the list of pages.
  if (on_demand && mr.start != mr.iova && mr.length > kMostShiftedBytes) {
    return std::unexpected(ENOMEM);
  }
  const PageRun pages = region_pages(mr.start, mr.iova, mr.length);
  std::vector<std::uint64_t> entries;
  for (const std::uint64_t page : pages.addresses) {
    entries.push_back(page | prm::kMttRead | prm::kMttWrite);
  }
  const auto octowords = static_cast<std::uint32_t>((entries.size() + 1) / 2);
  entries.resize(std::size_t{octowords} * 2);
  const std::uint8_t variant = variant_of(request, again);
  prm::CreateMkeyIn in{.header = {.opcode = prm::Opcode::kCreateMkey, .uid = request.uid()}, .mkey_index = again >> 8};
  in.translations_octword_actual_size = octowords;
  in.mkey = {.umr_en = true,
             .access_mode_1_0 = static_cast<std::uint8_t>(prm::MkeyMode::kMtt),
             .qpn = prm::kMkeyAnyQp,
             .mkey_7_0 = variant,
             .pd = mr.pd->number,
             .start_addr = mr.iova,
             .len = mr.length,
             .translations_octword_size = octowords,
             .log_page_size = pages.log_page_bytes};
  set_rights(in.mkey, mr.access);
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
  const bool implicit = is_implicit(asked.access_flags, asked.start, asked.length);
  auto mr = std::make_unique<Mr>(implicit ? std::uint16_t{0} : request.uid());
  mr->pd = request.file().find<Pd>(asked.pd_handle);
  if (mr->pd == nullptr) {
    return EINVAL;
  }
  if (const int error = check_access(request, asked.access_flags); error != 0) {
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
  if (const int error = (asked.flags & kReregAccess) != 0 ? check_access(request, asked.access_flags) : 0; error != 0) {
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
  if (is_implicit(*old) || is_implicit(changed)) {
    return EOPNOTSUPP;
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

int advise_mr(Request& request) {
  const auto flags = request.flags(UVERBS_ATTR_ADVISE_MR_FLAGS, IB_UVERBS_ADVISE_MR_FLAG_FLUSH);
  const auto advice = request.value<std::uint64_t>(UVERBS_ATTR_ADVISE_MR_ADVICE);
  const Pd* const pd = request.object<Pd>(UVERBS_ATTR_ADVISE_MR_PD_HANDLE);
  const auto list = request.input(UVERBS_ATTR_ADVISE_MR_SGE_LIST);
  if (!flags || list.size() % sizeof(ib_uverbs_sge) != 0) {
    return EINVAL;
  }
  if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return EOPNOTSUPP;
  }
  for (std::size_t at = 0; at < list.size(); at += sizeof(ib_uverbs_sge)) {
    ib_uverbs_sge sge{};
    std::memcpy(&sge, list.data() + at, sizeof sge);
    const Mr* const mr = request.file().find_if<Mr>([&](const Mr& other) { return other.key == sge.lkey; });
    if (mr == nullptr || (mr->access & IB_UVERBS_ACCESS_ON_DEMAND) == 0) {
      return ENOENT;
    }
    const bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    if (mr->pd != pd || (write && (mr->access & kWritableAccess) == 0)) {
      return EPERM;
    }
    if (sge.addr < mr->iova || sge.addr - mr->iova > mr->length || sge.length > mr->length - (sge.addr - mr->iova)) {
      return EFAULT;
    }
    // Without faults, pages that are not there stay so; in the background, nobody is told what could not be had.
    const bool waits = (*flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) != 0;
    if (advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT && sge.length != 0 &&
        pin_user_memory(mr->start + (sge.addr - mr->iova), sge.length, write) != 0 && waits) {
      return EFAULT;
    }
  }
  return 0;
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
