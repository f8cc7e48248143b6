// Posting copies of memory by work request (opcode MMO).
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "driver/context_state.h"
#include "driver/qp.h"
#include "driver/send_builder.h"
#include "wqe/mmo.h"

namespace umlx5 {

// One block: control segment, metadata, source, destination.
void SendBuilder::copy(const MemoryCopy& copy, const Sge& scratch, SendFlags flags, std::uint64_t wr_id) {
  constexpr unsigned kOctowords = wqe::kWqebbBytes / wqe::kOctowordBytes;
  if (!may_add()) {
    return;
  }
  const SendQueue& queue = *queue_;
  std::byte* const wqe = queue.ring_.wqebb(position_.next_wqebb);
  wqe::store(wqe, wqe::PostedControl{.wqe_index = static_cast<std::uint16_t>(position_.next_wqebb),
                                     .opcode = wqe::SendOpcode::kMmo,
                                     .qpn_ds = queue.qpn_part_ + kOctowords,
                                     .fm_ce_se = queue.fm_ce_se(flags, position_.after_umr)});
  wqe[0] = std::byte{wqe::kMmoOpmodDma};
  static_assert(wqe::offset_bits_of(&wqe::ControlSegment::opmod) == 0);
  // What is 31 bits long says the most by 0.
  const auto length = static_cast<std::uint32_t>(copy.length_bytes % wqe::kMaxDataSegmentBytes);
  std::byte* at = wqe + wqe::ControlSegment::kBytes;
  wqe::store(at, wqe::MmoMetadataSegment{.opaque_lkey = scratch.lkey, .opaque_address = scratch.address});
  at += wqe::MmoMetadataSegment::kBytes;
  wqe::store(at, wqe::DataSegment{.byte_count = length, .lkey = copy.source_lkey, .address = copy.source});
  at += wqe::DataSegment::kBytes;
  wqe::store(at, wqe::DataSegment{.byte_count = length, .lkey = copy.destination_lkey, .address = copy.destination});
  add_whole({.wqe = wqe, .octowords = kOctowords, .completion = CompletionOpcode::kMemcpy}, wr_id);
}

void Qp::add_copy(SendBuilder& builder, const MemoryCopy& copy, SendFlags flags, std::uint64_t wr_id) const {
  if (memcpy_scratch_ == nullptr) {
    return builder.refuse(Refusal::kUnsupported);
  }
  if (copy.length_bytes == 0 || copy.length_bytes > context_->state().capabilities.max_memcpy_bytes) {
    return builder.refuse(Refusal::kCopyLength);
  }
  builder.copy(copy, memcpy_scratch_->sge(0, wqe::kWqebbBytes), flags, wr_id);
}

Expected<void> Qp::copy_memory(const MemoryCopy& copy, SendFlags flags, std::uint64_t wr_id) {
  SendBuilder builder(&send_);
  builder.start();
  add_copy(builder, copy, flags, wr_id);
  const Refusal refusal = builder.complete();
  switch (refusal) {
    case Refusal::kNone:
      return {};
    case Refusal::kUnsupported:
      return fail(errno_of(refusal), name() + " was not created for copies of memory (dv_send_operations, kMemcpy)");
    case Refusal::kCopyLength:
      return fail(errno_of(refusal),
                  fmt::format("{}: a copy of {} bytes; 1 to {} are possible (device's "
                              "log_dma_mmo_max_size)",
                              name(), copy.length_bytes, context_->state().capabilities.max_memcpy_bytes));
    case Refusal::kFull:
      return fail(errno_of(refusal), fmt::format("{}: the send queue is full: {} requests are outstanding", name(),
                                                 send_.outstanding_requests()));
    default:
      return fail(errno_of(refusal), fmt::format("{} is in {} or has no send queue; copies are taken in RTS, SQD, SQE "
                                                 "and ERR",
                                                 name(), to_string(state())));
  }
}

}  // namespace umlx5
