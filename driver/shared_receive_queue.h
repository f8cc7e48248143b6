// The ring of a shared receive queue: a linked list of WQEs, since requests complete in any order.
// Layout: each WQE begins with a next segment (wqe/recv.h), wire_formats: mlx5dv.h struct mlx5_wqe_srq_next_seg.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "doorbell/record.h"
#include "driver/work_request.h"

namespace umlx5 {

// A producer posts (one thread at a time); complete() may be called by another thread at the same time.
class SharedReceiveQueue {
 public:
  struct Config {
    std::byte* ring = nullptr;    // `ring_wqes` strides, linked by the driver
    std::uint32_t ring_wqes = 0;  // power of two
    std::uint32_t wqe_bytes_log2 = 0;
    std::uint32_t max_requests = 0;  // ring_wqes - 1
    std::uint32_t max_sge = 0;
    doorbell::RecordMemory* record = nullptr;
  };

  bool configure(Config config);  // ENOMEM on an exhausted heap: false
  PostResult post(std::span<const RecvWr> requests);
  // What a CQE with this WQE counter completes; the WQE goes back to the list.
  std::uint64_t complete(std::uint16_t wqe_counter);
  bool scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const;
  const Config& config() const { return config_; }

 private:
  Config config_;
};

}  // namespace umlx5
