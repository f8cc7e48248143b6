// Data that the device put into a CQE instead of memory, copied to where the work request wanted it.
#include <algorithm>
#include <cstring>

#include "driver/receive_queue.h"
#include "driver/send_queue.h"

namespace umlx5 {
namespace {

// Takes what `segment` has room for off the front of `data`.
void fill(const wqe::DataSegment& segment, std::span<const std::byte>& data, std::uint32_t null_lkey) {
  const std::size_t count = std::min<std::size_t>(segment.length_bytes(), data.size());
  if (count != 0 && (segment.lkey != null_lkey || null_lkey == 0)) {
    std::memcpy(reinterpret_cast<void*>(segment.address), data.data(), count);
  }
  data = data.subspan(count);
}

}  // namespace

bool SendQueue::scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const {
  if (config_.wqebbs == 0) {
    return data.empty();
  }
  const std::byte* at = config_.ring + std::size_t{wqe_counter & wqebb_mask_} * wqe::kWqebbBytes;
  const auto control = wqe::load<wqe::ControlSegment>(at);
  const bool atomic =
      control.opcode == wqe::SendOpcode::kAtomicCompareSwap || control.opcode == wqe::SendOpcode::kAtomicFetchAdd;
  if (!atomic && control.opcode != wqe::SendOpcode::kRdmaRead) {
    return false;
  }
  const unsigned header_octowords = atomic ? 3 : 2;
  at += header_octowords * wqe::kOctowordBytes;
  for (unsigned used = header_octowords; used < control.ds_octowords && !data.empty(); ++used) {
    if (at == ring_end_) {
      at = config_.ring;
    }
    fill(wqe::load<wqe::DataSegment>(at), data, null_lkey);
    at += wqe::DataSegment::kBytes;
  }
  return data.empty();
}

bool ReceiveQueue::scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const {
  if (config_.wqes == 0) {
    return data.empty();
  }
  const std::byte* at = config_.ring + (std::size_t{wqe_counter & wqe_mask_} << config_.wqe_bytes_log2);
  for (std::uint32_t used = 0; used < config_.max_sge && !data.empty(); ++used) {
    const auto segment = wqe::load<wqe::DataSegment>(at);
    if (segment.is_terminator()) {
      break;
    }
    fill(segment, data, null_lkey);
    at += wqe::DataSegment::kBytes;
  }
  return data.empty();
}

}  // namespace umlx5
