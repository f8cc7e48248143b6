// Data that the device put into a CQE instead of memory, copied to where the work request wanted it.
#include <algorithm>
#include <cstring>

#include "driver/receive_queue.h"
#include "driver/send_queue.h"
#include "driver/shared_receive_queue.h"

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

// A receive WQE's list. False if it is too short.
bool fill_list(const std::byte* at, std::uint32_t max_sge, std::span<const std::byte> data, std::uint32_t null_lkey) {
  for (std::uint32_t used = 0; used < max_sge && !data.empty(); ++used) {
    const auto segment = wqe::load<wqe::DataSegment>(at);
    if (segment.is_terminator()) {
      break;
    }
    fill(segment, data, null_lkey);
    at += wqe::DataSegment::kBytes;
  }
  return data.empty();
}

}  // namespace

bool SendQueue::scatter(std::uint16_t wqe_counter, std::span<const std::byte> data, std::uint32_t null_lkey) const {
  if (config_.wqebbs == 0) {
    return data.empty();
  }
  const auto control = wqe::load<wqe::ControlSegment>(ring_.wqebb(wqe_counter));
  const bool atomic =
      control.opcode == wqe::SendOpcode::kAtomicCompareSwap || control.opcode == wqe::SendOpcode::kAtomicFetchAdd;
  if (!atomic && control.opcode != wqe::SendOpcode::kRdmaRead) {
    return false;
  }
  const std::size_t header = header_bytes(config_.transport, atomic ? SendOpcode::kCompareSwap : SendOpcode::kRdmaRead);
  const std::byte* at =
      ring_.wqebb(wqe_counter + static_cast<std::uint32_t>(header / wqe::kWqebbBytes)) + header % wqe::kWqebbBytes;
  for (std::size_t used = header / wqe::kOctowordBytes; used < control.ds_octowords && !data.empty(); ++used) {
    at = at == ring_.end() ? ring_.begin() : at;
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
  return fill_list(at, config_.max_sge, data, null_lkey);
}

bool SharedReceiveQueue::scatter(std::uint16_t wqe_counter, std::span<const std::byte> data,
                                 std::uint32_t null_lkey) const {
  return fill_list(wqe(wqe_counter & wqe_mask_) + wqe::SrqNextSegment::kBytes, config_.max_sge, data, null_lkey);
}

}  // namespace umlx5
