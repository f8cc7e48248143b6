// What is seldom posted: memory windows bound by a WQE, WQEs made elsewhere; WQE signatures, and doorbells of shared
// registers.
#include <cstring>

#include "driver/send_builder.h"
#include "wqe/umr.h"

namespace umlx5 {

// Control segment and UMR control segment fill the first block, the key's context the second, and the entry that says
// where the window lies the third. Layout and bits: mlx5dv.h struct mlx5_wqe_umr_ctrl_seg and its neighbours.
unsigned SendQueue::put_window(const SendRing& ring, std::byte* wqe, const WindowBinding& binding) const {
  if (binding.length_bytes > wqe::kMaxDataSegmentBytes) {
    return SendRing::kRefused;
  }
  constexpr std::uint32_t kAnyQp = 0xffffff;
  const bool binds = binding.length_bytes != 0;
  wqe::UmrControlSegment umr{
      .inline_translations = true,
      .check_free = binds && binding.type_2,
      .has_translation_offset = true,
      .check_qpn = !binds && binding.type_2,
      .klm_octowords = static_cast<std::uint16_t>(binds ? wqe::kTranslationAlignOctowords : 0),
      .mkey_mask = wqe::mkey_mask::kFree | wqe::mkey_mask::kMkey | (binding.type_2 ? wqe::mkey_mask::kQpn : 0)};
  wqe::MkeyContextSegment key{.free = !binds,
                              .qpn = binds && binding.type_2 ? config_.qpn : kAnyQp,
                              .key_tag = static_cast<std::uint8_t>(binding.new_rkey)};
  std::byte* const context = ring.wrapped(wqe + wqe::kWqebbBytes);
  if (binds) {
    umr.mkey_mask |= wqe::mkey_mask::kLength | wqe::mkey_mask::kStartAddress | wqe::mkey_mask::kLocalWrite |
                     wqe::mkey_mask::kRemoteRead | wqe::mkey_mask::kRemoteWrite | wqe::mkey_mask::kAtomic;
    key.access_atomic = binding.access.has(Access::kRemoteAtomic);
    key.access_remote_write = binding.access.has(Access::kRemoteWrite);
    key.access_remote_read = binding.access.has(Access::kRemoteRead);
    key.access_local_write = binding.access.has(Access::kLocalWrite);
    key.start_address = binding.access.has(Access::kZeroBased) ? 0 : binding.address;
    key.length_bytes = binding.length_bytes;
    std::byte* const entries = ring.wrapped(context + wqe::kWqebbBytes);
    std::memset(entries, 0, wqe::kTranslationAlignOctowords * wqe::kOctowordBytes);
    wqe::store(entries, wqe::KlmEntry{.byte_count = static_cast<std::uint32_t>(binding.length_bytes),
                                      .mkey = binding.lkey,
                                      .address = binding.address});
  }
  wqe::store(wqe + wqe::ControlSegment::kBytes, umr);
  wqe::store(context, key);
  return binds ? wqe::kTranslationAlignOctowords : 0;
}

SendQueue::Built SendQueue::build_umr(SendOpcode opcode, const WindowBinding& binding, std::uint32_t key,
                                      SendFlags flags, const SendRing& ring, const Position& position) const {
  std::byte* const wqe = ring.wqebb(position.next_wqebb);
  const unsigned entries = put_window(ring, wqe, binding);
  if (entries == SendRing::kRefused) {
    return {.refusal = Refusal::kWindow};
  }
  const SendForm form = send_form(opcode);
  const unsigned octowords =
      static_cast<unsigned>(header_bytes(config_.transport, opcode) / wqe::kOctowordBytes) + entries;
  put_control(wqe, form.opcode, octowords, flags, wqe::internal::big_endian(key), position);
  return {.wqe = wqe, .octowords = octowords, .completion = form.completion, .changes_key = true};
}

void SendQueue::sign(std::uint32_t wqebb, unsigned octowords) const {
  constexpr std::size_t kSignatureOffset = 8;
  static_assert(wqe::offset_bits_of(&wqe::ControlSegment::signature) == kSignatureOffset * 8);
  std::byte* const wqe = ring_.wqebb(wqebb);
  std::uint64_t folded = 0;
  const std::byte* at = wqe;
  for (unsigned octoword = 0; octoword < octowords; ++octoword) {
    at = at == ring_.end() ? ring_.begin() : at;
    std::uint64_t words[2];
    std::memcpy(words, at, sizeof words);
    folded ^= words[0] ^ words[1];
    at += wqe::kOctowordBytes;
  }
  folded ^= folded >> 32;
  folded ^= folded >> 16;
  folded ^= folded >> 8;
  wqe[kSignatureOffset] = ~static_cast<std::byte>(folded);  // it was zero so far
}

void SendBuilder::change_window(SendOpcode opcode, const WindowBinding& binding, std::uint32_t key, std::uint64_t wr_id,
                                SendFlags flags) {
  if (!may_begin(opcode)) {
    return;
  }
  add_whole(queue_->build_umr(opcode, binding, key, flags, queue_->ring_, position_), wr_id);
}

void SendBuilder::raw(const std::byte* wqe, std::uint64_t wr_id) {
  constexpr std::size_t kIndexOffset = 1;  // two bytes in front of the opcode
  static_assert(wqe::offset_bits_of(&wqe::ControlSegment::wqe_index) == kIndexOffset * 8);
  if (!may_add()) {
    return;
  }
  const SendQueue& queue = *queue_;
  const unsigned octowords = static_cast<std::uint8_t>(wqe[7]) & wqe::kMaxDsOctowords;
  if (octowords == 0 || octowords * wqe::kOctowordBytes > queue.config_.max_wqe_bytes) {
    return refuse(Refusal::kRawLength);
  }
  std::byte* const to = queue.ring_.wqebb(position_.next_wqebb);
  std::byte* at = to;
  for (unsigned octoword = 0; octoword < octowords; ++octoword) {
    at = queue.ring_.wrapped(at);
    std::memcpy(at, wqe + octoword * wqe::kOctowordBytes, wqe::kOctowordBytes);
    at += wqe::kOctowordBytes;
  }
  wqe::internal::store_word<std::uint16_t>(to + kIndexOffset, static_cast<std::uint16_t>(position_.next_wqebb));
  if (queue.config_.wqe_signature) {
    to[8] = std::byte{0};  // what sign() starts from
  }
  add_whole({.wqe = to, .octowords = octowords, .completion = CompletionOpcode::kRawWqe}, wr_id);
}

}  // namespace umlx5
