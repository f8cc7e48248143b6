// The page that tells programs how the device's clock relates to the time of day: struct mlx5_ib_clock_info.
#pragma once

#include <cstddef>
#include <span>

namespace softhca::kernel {

// Not thread-safe, but for the readers of the page.
class ClockInfo {
 public:
  ClockInfo();
  ~ClockInfo();
  ClockInfo(const ClockInfo&) = delete;
  ClockInfo& operator=(const ClockInfo&) = delete;

  // One page; empty if there is no memory.
  std::span<std::byte> page() const;
  // Takes the time of day as it is now. The device's clock counts nanoseconds of CLOCK_MONOTONIC.
  void update();

 private:
  std::byte* page_ = nullptr;
};

}  // namespace softhca::kernel
