// A request that is made once and posted many times with other addresses.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "driver/work_request.h"
#include "wqe/units.h"

namespace umlx5 {

// A WQE of one block but for its index, its wr_id and its two addresses; of the queue pair that made it
// (Qp::make_template()) and of no other, while that queue pair is not destroyed or reset. A value: it may be copied,
// and posting only reads it.
class SendTemplate {
 private:
  friend class Qp;
  friend class SendQueue;

  alignas(wqe::kWqebbBytes) std::array<std::byte, wqe::kWqebbBytes> block_{};
  std::uint64_t control_ = 0;        // the control segment's first word, host order, without the index
  std::uint32_t remote_offset_ = 0;  // of the two addresses in the block; without a remote address both are the same
  std::uint32_t local_offset_ = 0;
  CompletionOpcode completion_{};
};

// What differs between the requests made of one template.
struct TemplateWr {
  std::uint64_t wr_id = 0;
  std::uint64_t address = 0;         // of the local memory, as in an Sge
  std::uint64_t remote_address = 0;  // read where the opcode has one
};

}  // namespace umlx5
