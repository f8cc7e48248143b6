// Posting the work requests that configure a memory key.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "driver/context_state.h"
#include "driver/mkey.h"
#include "driver/qp.h"
#include "driver/send_builder.h"
#include "wqe/psv.h"

namespace umlx5 {
namespace {

// A WQE's bytes behind its control segment.
void copy_octowords(const SendRing& ring, std::byte* at, std::span<const std::byte> from) {
  for (; !from.empty(); from = from.subspan(wqe::kOctowordBytes)) {
    at = ring.wrapped(at);
    std::memcpy(at, from.data(), wqe::kOctowordBytes);
    at += wqe::kOctowordBytes;
  }
}

}  // namespace

void SendBuilder::key_wqe(wqe::SendOpcode opcode, std::uint32_t key, std::span<const std::byte> body,
                          std::uint64_t wr_id, std::uint8_t fm_ce_se) {
  const SendQueue& queue = *queue_;
  const unsigned octowords = static_cast<unsigned>((wqe::ControlSegment::kBytes + body.size()) / wqe::kOctowordBytes);
  if (!may_add()) {
    return;
  }
  if (octowords > wqe::kMaxDsOctowords || octowords * wqe::kOctowordBytes > queue.config_.max_wqe_bytes) {
    return refuse(Refusal::kKeyLayout);
  }
  std::byte* const wqe = queue.ring_.wqebb(position_.next_wqebb);
  wqe::store(wqe, wqe::PostedControl{.wqe_index = static_cast<std::uint16_t>(position_.next_wqebb),
                                     .opcode = opcode,
                                     .qpn_ds = queue.qpn_part_ + octowords,
                                     .fm_ce_se = fm_ce_se,
                                     .immediate = key});
  copy_octowords(queue.ring_, wqe + wqe::ControlSegment::kBytes, body);
  add_whole({.wqe = wqe, .octowords = octowords, .completion = CompletionOpcode::kUmr, .changes_key = true}, wr_id);
}

void SendBuilder::configure_key(std::uint32_t key, const MkeyWqes& wqes, SendFlags flags, std::uint64_t wr_id) {
  constexpr std::uint8_t kCompletionBits =
      wqe::PostedControl::fm_ce_se_of(wqe::FenceMode::kNone, wqe::CompletionMode::kAlwaysAndEvent, false);
  end_request();
  const std::size_t count = 1 + wqes.psv_count;
  for (std::size_t i = 0; i < count && refusal_ == Refusal::kNone; ++i) {
    std::uint8_t fm_ce_se = queue_->fm_ce_se(flags, position_.after_umr);
    if (i + 1 != count) {
      fm_ce_se &= static_cast<std::uint8_t>(~kCompletionBits);  // the last one tells of all
    }
    if (i == 0) {
      key_wqe(wqe::SendOpcode::kUmr, key, std::span(wqes.umr).first(wqes.umr_bytes), wr_id, fm_ce_se);
      continue;
    }
    std::array<std::byte, wqe::SetPsvSegment::kBytes> psv{};
    wqe::store(psv.data(),
               wqe::SetPsvSegment{.psv_index = wqes.psvs[i - 1].index, .transient_signature = wqes.psvs[i - 1].start});
    key_wqe(wqe::SendOpcode::kSetPsv, 0, psv, wr_id, fm_ce_se);
  }
}

MkeyLimits Qp::mkey_limits() const {
  const Context::State& state = context_->state();
  return {.max_inline_bytes = capacity_.max_inline_bytes,
          .key_tags = (state.info.device.comp_mask & MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG) != 0,
          .encrypts_single_block = !state.capabilities.encrypts_many_blocks,
          .big_endian_tweak = state.capabilities.encrypts_many_blocks};
}

Expected<void> Qp::configure_mkey(Mkey& mkey, const MkeyChange& change, SendFlags flags, std::uint64_t wr_id) {
  MkeyState state = mkey.state();
  MkeyWqes wqes;
  if (auto result = build_mkey_wqes(change, mkey_limits(), state, wqes); !result) {
    return result;
  }
  SendBuilder builder(&send_);
  builder.start();
  builder.configure_key(state.key, wqes, flags, wr_id);
  if (const Refusal refusal = builder.complete(); refusal != Refusal::kNone) {
    return fail(errno_of(refusal), refuse_mkey(refusal, wqes));
  }
  mkey.set_state(state);
  return {};
}

std::string Qp::refuse_mkey(Refusal refusal, const MkeyWqes& wqes) const {
  const SendQueue::Config& queue = send_.config();
  switch (refusal) {
    case Refusal::kFull:
      return fmt::format("{}: {} work requests change the mkey, and {} of {} are outstanding", name(),
                         1 + wqes.psv_count, send_.outstanding_requests(), queue.max_requests);
    case Refusal::kKeyLayout:
      return fmt::format(
          "{}: a work request of {} bytes changes the mkey; at most {} (the QP is to be created for "
          "operations on mkeys and with enough max_inline_bytes)",
          name(), wqe::ControlSegment::kBytes + wqes.umr_bytes, queue.max_wqe_bytes);
    default:
      return fmt::format("{} is in {} or has no send queue; mkeys are changed in RTS, SQD, SQE and ERR", name(),
                         to_string(state()));
  }
}

}  // namespace umlx5
