// The page that tells programs how the device's clock relates to the time of day: struct mlx5_ib_clock_info.
#pragma once

#include <cstddef>
#include <expected>

#include "tools/softhca/shared_memory.h"

namespace softhca::kernel {

// Not thread-safe, but for the readers of the page.
class ClockInfo {
 public:
  ClockInfo();

  // The page for a reader, to be given back to munmap(). Errno.
  std::expected<std::byte*, int> map() const;
  // Takes the time of day as it is now. The device's clock counts nanoseconds of CLOCK_MONOTONIC.
  void update();

 private:
  SharedMemory page_;
};

}  // namespace softhca::kernel
