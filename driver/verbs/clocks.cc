#include "driver/verbs/clocks.h"

#include <endian.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "driver/context.h"

namespace umlx5::verbs {

void Clocks::map(Context& context) {
  const mlx5_ib_alloc_ucontext_resp& kernel = context.kernel_info().device;
  uapi::Channel& channel = context.commands().channel();
  if ((kernel.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET) != 0) {
    if (auto core = uapi::map_core_clock(channel)) {
      core_ = std::move(*core);
      core_offset_bytes_ = kernel.hca_core_clock_offset & (uapi::page_bytes() - 1);
    }
  }
  if ((kernel.clock_info_versions & (1U << MLX5_IB_CLOCK_INFO_V1)) != 0) {
    if (auto info = uapi::map_clock_info(channel)) {
      info_ = std::move(*info);
    }
  }
}

const volatile std::uint32_t* Clocks::core_clock(Context& context) {
  std::call_once(once_, [&] { map(context); });
  return core_ ? reinterpret_cast<const volatile std::uint32_t*>(core_.address() + core_offset_bytes_) : nullptr;
}

const mlx5_ib_clock_info* Clocks::clock_info(Context& context) {
  std::call_once(once_, [&] { map(context); });
  return info_ ? reinterpret_cast<const mlx5_ib_clock_info*>(info_.address()) : nullptr;
}

Expected<std::uint64_t> Clocks::read(Context& context) {
  const volatile std::uint32_t* clock = core_clock(context);
  if (clock == nullptr) {
    return fail(EOPNOTSUPP, "device clock: the kernel does not map it");
  }
  // The halves are read one by one: the low one counts only between two equal high ones.
  for (;;) {
    const std::uint32_t high = be32toh(clock[0]);
    const std::uint32_t low = be32toh(clock[1]);
    if (be32toh(clock[0]) == high) {
      return std::uint64_t{high} << 32 | low;
    }
  }
}

Expected<mlx5dv_clock_info> Clocks::snapshot(Context& context) {
  const mlx5_ib_clock_info* info = clock_info(context);
  if (info == nullptr) {
    return fail(EINVAL, "clock info: the kernel does not map it");
  }
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint32_t before = __atomic_load_n(&info->sign, __ATOMIC_ACQUIRE);
    mlx5_ib_clock_info copy;
    std::memcpy(&copy, info, sizeof copy);
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::uint32_t after = __atomic_load_n(&info->sign, __ATOMIC_RELAXED);
    if (before == after && (before & MLX5_IB_CLOCK_INFO_KERNEL_UPDATING) == 0) {
      return mlx5dv_clock_info{.nsec = copy.nsec,
                               .last_cycles = copy.cycles,
                               .frac = copy.frac,
                               .mult = copy.mult,
                               .shift = copy.shift,
                               .mask = copy.mask};
    }
  }
  return fail(EBUSY, "clock info: the kernel is changing it all the time");
}

}  // namespace umlx5::verbs
