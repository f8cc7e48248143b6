// What completes of a striding receive queue: each of its WQEs takes many frames, one completion each.
#pragma once

#include <cstdint>

#include "driver/receive_queue.h"
#include "wqe/data.h"

namespace umlx5 {

// One thread at a time completes.
class StridingReceives {
 public:
  StridingReceives(ReceiveQueue& queue, std::uint32_t strides) : queue_(&queue), strides_(strides) {}

  // The wr_id of WQE `wqe_id`, which is free with its last stride.
  std::uint64_t complete(std::uint16_t wqe_id, wqe::StridingByteCount count) {
    const std::uint64_t wr_id = queue_->wr_id(wqe_id);
    taken_ += count.strides();
    if (taken_ >= strides_) {
      taken_ = 0;
      queue_->complete(1);
    }
    return wr_id;
  }
  // The same of a WQE that failed, or was flushed.
  std::uint64_t fail(std::uint16_t wqe_id) {
    taken_ = 0;
    queue_->complete(1);
    return queue_->wr_id(wqe_id);
  }
  void reset() { taken_ = 0; }

 private:
  ReceiveQueue* queue_;
  std::uint32_t strides_;    // of a WQE
  std::uint32_t taken_ = 0;  // of the WQE in use
};

}  // namespace umlx5
