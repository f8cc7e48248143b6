// Memory on the device, and regions of it.
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/uverbs_file.h"
#include "wqe/prm/memic.h"
#include "wqe/prm/mkey.h"

namespace softhca::kernel {

namespace prm = umlx5::wqe::prm;

namespace {

constexpr std::uint64_t kGranuleBytes = 64;
constexpr std::uint32_t kLogGranuleBytes = 6;
constexpr std::uint32_t kAllowedAccess = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                                         IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
                                         IB_UVERBS_ACCESS_ZERO_BASED;

// As mlx5_ib does: whole pages for each allocation, the first that the device agrees to. The BAR address.
std::expected<std::uint64_t, int> allocate_memic(Request& request, std::uint32_t bytes, std::uint32_t log_alignment) {
  const Capabilities& caps = request.device().caps();
  const std::uint32_t alignment = std::max(log_alignment, kLogGranuleBytes) - kLogGranuleBytes;
  if (alignment > caps.log_max_memic_alignment) {
    return std::unexpected(EINVAL);
  }
  const auto taken = request.device().memic_pages();
  const std::size_t pages = (bytes + Dm::kPageBytes - 1) / Dm::kPageBytes;
  const std::uint64_t range_bytes = pages * Dm::kPageBytes;
  for (std::size_t first = 0; first + pages <= taken.size(); ++first) {
    const auto range = taken.subspan(first, pages);
    if (std::ranges::count(range, true) != 0) {
      continue;
    }
    const auto out = command<prm::AllocMemicOut>(
        request.firmware(), prm::AllocMemicIn{.header = {.opcode = prm::Opcode::kAllocMemic},
                                              .log_memic_addr_alignment = static_cast<std::uint8_t>(alignment),
                                              .range_start_addr = caps.memic_start + first * Dm::kPageBytes,
                                              .range_size = static_cast<std::uint32_t>(range_bytes),
                                              .memic_size = bytes});
    if (out) {
      std::ranges::fill(range, true);
      return out->memic_start_addr;
    }
    if (out.error() != EAGAIN) {
      return std::unexpected(out.error());
    }
  }
  return std::unexpected(ENOMEM);
}

}  // namespace

int Dm::release(RdmaDevice& device) {
  const auto out =
      command<prm::ObjectOut>(device.firmware(), prm::DeallocMemicIn{.header = {.opcode = prm::Opcode::kDeallocMemic},
                                                                     .memic_start_addr = address,
                                                                     .memic_size = memic_bytes});
  if (!out) {
    return out.error();
  }
  std::ranges::fill(device.memic_pages().subspan(page_index(device.caps()), mapped_bytes() / kPageBytes), false);
  return 0;
}

namespace handlers {

int alloc_dm(Request& request) {
  const auto length = request.value<std::uint64_t>(UVERBS_ATTR_ALLOC_DM_LENGTH);
  const auto type = request.has(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE)
                        ? request.value<std::uint64_t>(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE)
                        : std::uint64_t{MLX5_IB_UAPI_DM_TYPE_MEMIC};
  const Capabilities& caps = request.device().caps();
  if (type != MLX5_IB_UAPI_DM_TYPE_MEMIC || !caps.memic) {
    return EOPNOTSUPP;  // memory for steering rules: there is no steering
  }
  if (length == 0) {
    return EINVAL;
  }
  if (length > caps.memic_bytes) {
    return ENOMEM;
  }
  const auto bytes = static_cast<std::uint32_t>((length + kGranuleBytes - 1) & ~(kGranuleBytes - 1));
  const auto address = allocate_memic(request, bytes, request.value<std::uint32_t>(UVERBS_ATTR_ALLOC_DM_ALIGNMENT));
  if (!address) {
    return address.error();
  }
  auto memory = std::make_unique<Dm>(request.uid(), *address, bytes, length);
  const std::uint64_t start_offset = memory->start_offset();
  const std::uint16_t page_index = memory->page_index(caps);
  const std::uint32_t handle = request.adopt(std::move(memory));
  int error = request.put_handle(UVERBS_ATTR_ALLOC_DM_HANDLE, handle);
  error = error != 0 ? error : request.put_value(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page_index);
  return error != 0 ? error : request.put_value(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, start_offset);
}

int query_dm(Request& request) {
  const Dm& memory = *request.object<Dm>(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE);
  int error = request.put_value(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, memory.start_offset());
  error = error != 0
              ? error
              : request.put_value(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, memory.page_index(request.device().caps()));
  return error != 0 ? error : request.put_value(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, memory.length);
}

// Operations by access to an address of their own (memic_operations): the device has none of them.
int map_dm_op_addr(Request&) { return EOPNOTSUPP; }

int reg_dm_mr(Request& request) {
  Dm* const memory = request.object<Dm>(UVERBS_ATTR_REG_DM_MR_DM_HANDLE);
  const auto offset = request.value<std::uint64_t>(UVERBS_ATTR_REG_DM_MR_OFFSET);
  const auto length = request.value<std::uint64_t>(UVERBS_ATTR_REG_DM_MR_LENGTH);
  const auto access = request.flags(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, ~0u).value_or(0);
  constexpr std::uint32_t kNeedLocalWrite = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
  const bool lacks_local_write = (access & kNeedLocalWrite) != 0 && (access & IB_UVERBS_ACCESS_LOCAL_WRITE) == 0;
  if ((access & IB_UVERBS_ACCESS_ZERO_BASED) == 0 || (access & ~kAllowedAccess) != 0 || lacks_local_write ||
      offset > memory->length || length > memory->length - offset) {
    return EINVAL;
  }
  auto mr = std::make_unique<Mr>(request.uid());
  mr->pd = request.object<Pd>(UVERBS_ATTR_REG_DM_MR_PD_HANDLE);
  mr->length = length;
  mr->access = access;
  mr->on_device = true;
  const std::uint8_t variant = request.device().next_mkey_variant();
  constexpr auto kMode = static_cast<std::uint8_t>(prm::MkeyMode::kMemic);
  prm::CreateMkeyIn in{.header = {.opcode = prm::Opcode::kCreateMkey, .uid = request.uid()}};
  in.mkey = {.access_mode_4_2 = kMode >> 2,
             .a = (access & IB_UVERBS_ACCESS_REMOTE_ATOMIC) != 0,
             .rw = (access & IB_UVERBS_ACCESS_REMOTE_WRITE) != 0,
             .rr = (access & IB_UVERBS_ACCESS_REMOTE_READ) != 0,
             .lw = (access & IB_UVERBS_ACCESS_LOCAL_WRITE) != 0,
             .lr = true,
             .access_mode_1_0 = kMode & 3,
             .qpn = prm::kMkeyAnyQp,
             .mkey_7_0 = variant,
             .pd = mr->pd->number,
             .start_addr = memory->address + offset,
             .len = length};
  const auto out = command<prm::ObjectOut>(request.firmware(), in);
  if (!out) {
    return out.error();
  }
  const std::uint32_t key = mr->key = out->number << 8 | variant;
  mr->use(mr->pd);
  mr->use(memory);
  const std::uint32_t handle = request.adopt(std::move(mr));
  int error = request.put_handle(UVERBS_ATTR_REG_DM_MR_HANDLE, handle);
  error = error != 0 ? error : request.put_value(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, key);
  return error != 0 ? error : request.put_value(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, key);
}

}  // namespace handlers
}  // namespace softhca::kernel
