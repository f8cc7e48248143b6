// The device's clock as the kernel maps it into the process.
#pragma once

#include <infiniband/mlx5dv.h>
#include <rdma/mlx5-abi.h>

#include <cstdint>
#include <mutex>

#include "uapi/error.h"
#include "uapi/mapping.h"

namespace umlx5 {
class Context;
}

namespace umlx5::verbs {

// Mapped when they are first asked for. Thread-safe. Goes before the context does.
class Clocks {
 public:
  // Where the free-running counter is (big-endian, high word first); null where the kernel does not offer it.
  const volatile std::uint32_t* core_clock(Context& context);
  // How the counter relates to the system's time; null where the kernel does not offer it.
  const mlx5_ib_clock_info* clock_info(Context& context);

  // Cycles. EOPNOTSUPP without a counter.
  Expected<std::uint64_t> read(Context& context);
  // A state of clock_info() that the kernel was not in the middle of changing; mlx5dv_ts_to_ns() takes it. EINVAL where
  // there is none, EBUSY if the kernel never finished.
  Expected<mlx5dv_clock_info> snapshot(Context& context);

 private:
  void map(Context& context);

  std::once_flag once_;
  uapi::Mapping core_, info_;
  std::size_t core_offset_bytes_ = 0;
};

}  // namespace umlx5::verbs
