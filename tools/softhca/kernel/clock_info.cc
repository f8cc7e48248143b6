#include "tools/softhca/kernel/clock_info.h"

#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace softhca::kernel {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

ClockInfo::ClockInfo() : page_(kPageBytes) {}

std::expected<std::byte*, int> ClockInfo::map() const { return page_.map(0, kPageBytes, PROT_READ); }

void ClockInfo::update() {
  auto& info = *reinterpret_cast<mlx5_ib_clock_info*>(page_.bytes().data());
  const std::atomic_ref sign(info.sign);
  const std::uint32_t version = sign.load(std::memory_order_relaxed);
  sign.store(version | MLX5_IB_CLOCK_INFO_KERNEL_UPDATING, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  info.nsec = now_ns(CLOCK_REALTIME);
  info.cycles = now_ns(CLOCK_MONOTONIC);
  info.frac = 0;
  info.mult = 1;  // a cycle is a nanosecond
  info.shift = 0;
  info.mask = ~std::uint64_t{0};
  sign.store((version & ~std::uint32_t{MLX5_IB_CLOCK_INFO_KERNEL_UPDATING}) + 2 * MLX5_IB_CLOCK_INFO_KERNEL_UPDATING,
             std::memory_order_release);
}

}  // namespace softhca::kernel
