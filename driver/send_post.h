// Posting to a send queue: the templates that send_queue.h declares, for whoever posts requests of a form of its own.
//
// Most requests have one SGE, are not inline and leave room for nothing else: put_short() takes them, with all that the
// queue knows beforehand in a table, and writes one block. What it does not take, build() does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "doorbell/submit.h"
#include "driver/data_segments.h"
#include "driver/send_queue.h"

namespace umlx5 {

template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline bool SendQueue::post_short(const Request& request) {
  if (request.flags().has(SendFlag::kInline)) {
    return post_inline<kTransport>(request);
  }
  std::byte* const wqe = put_short<kTransport>(request);
  if (wqe == nullptr) [[unlikely]] {
    return false;
  }
  publish_block(wqe);
  return true;
}

// One request with one piece of inline data that does not reach over the ring's end; false: it is another.
template <SendTransport kTransport, typename Request>
[[gnu::noinline]] bool SendQueue::post_inline(const Request request) {
  constexpr std::size_t kFront = wqe::ControlSegment::kBytes + transport_bytes(kTransport);
  const auto opcode = static_cast<std::uint32_t>(request.opcode());
  const std::uint32_t head = position_.head;
  if (static_cast<std::int32_t>(short_until_ - head) <= 0 || opcode >= kRecipes ||
      kTransport == SendTransport::kDc) [[unlikely]] {
    return false;
  }
  const Recipe& recipe = recipes_[opcode];
  const std::span<const Sge> sges = request.sges();
  if (!recipe.may_inline || sges.size() != 1) [[unlikely]] {
    return false;
  }
  const std::uint32_t length = sges.front().length_bytes;
  const std::uint32_t next = position_.next_wqebb;
  const std::uint32_t index = next & ring_.wqebb_mask();
  std::byte* const wqe = ring_.begin() + std::size_t{index} * wqe::kWqebbBytes;
  std::byte* at = ring_.wrapped(wqe + kFront + recipe.remote_bytes());
  if (length - 1 >= config_.max_inline_bytes || ring_.bytes_behind(at) < wqe::InlineHeader::kBytes + length ||
      !put_transport<kTransport>(wqe, request)) [[unlikely]] {
    return false;
  }
  if (kTransport != SendTransport::kDatagram && recipe.remote_address) {
    put_operation<SendOpcode::kRdmaWrite>(wqe + kFront, request);
  }
  wqe::store(at, wqe::InlineHeader{.byte_count = length});
  copy_inline(at + wqe::InlineHeader::kBytes, reinterpret_cast<const std::byte*>(sges.front().address), length);
  const std::uint64_t control = recipe.control + wqe::inline_octowords(length) - 1;
  put_front(wqe, control, request.flags(), request.immediate_big_endian() & recipe.immediate_mask, next);
  slots_[index] = {request.wr_id(), head + 1, static_cast<std::uint32_t>(recipe.completion)};
  position_.head = head + 1;
  const auto octowords = static_cast<unsigned>(control) & wqe::kMaxDsOctowords;
  position_.next_wqebb = next + static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
  return publish_one(wqe, octowords);
}

template <SendTransport kTransport, typename Source>
[[gnu::noinline]] Refusal SendQueue::post_from(Source& source_of_caller) {
  Source source = source_of_caller;  // may stay in registers
  Refusal refusal = Refusal::kNone;
  const std::byte* last = nullptr;
  std::uint32_t count = 0;
  for (; !source.done(); source.advance(), ++count) {
    const auto request = source.view();
    if (std::byte* const wqe = put_short<kTransport>(request); wqe != nullptr) [[likely]] {
      last = wqe;
      continue;
    }
    const Built built = build<kTransport>(request);
    if (built.octowords == 0) [[unlikely]] {
      refusal = built.refusal;
      break;
    }
    last = built.wqe;
  }
  if (count == 1) {
    publish_one(last, static_cast<unsigned>(last[kDsOffset]) & wqe::kMaxDsOctowords);
  } else if (count != 0) {
    publish_list(last);
  }
  source_of_caller = source;
  return refusal;
}

// Null: not a request of this kind, or no room for it; nothing was counted.
template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline std::byte* SendQueue::put_short(const Request& request) {
  constexpr std::size_t kFront = wqe::ControlSegment::kBytes + transport_bytes(kTransport);
  constexpr bool kFitsBlock =
      kFront + wqe::RemoteAddressSegment::kBytes + wqe::DataSegment::kBytes <= wqe::kWqebbBytes;
  const auto opcode = static_cast<std::uint32_t>(request.opcode());
  const std::uint32_t head = position_.head;
  if (!kFitsBlock || static_cast<std::int32_t>(short_until_ - head) <= 0 ||
      opcode >= kRecipes) [[unlikely]] {
    return nullptr;
  }
  const Recipe& recipe = recipes_[opcode];
  const std::span<const Sge> sges = request.sges();
  const SendFlags flags = request.flags();
  if (recipe.control == 0 || sges.size() != 1 || flags.has(SendFlag::kInline)) [[unlikely]] {
    return nullptr;
  }
  const std::uint32_t next = position_.next_wqebb;
  const std::uint32_t index = next & ring_.wqebb_mask();
  std::byte* const wqe = ring_.begin() + std::size_t{index} * wqe::kWqebbBytes;
  std::byte* at = wqe + kFront;
  if (recipe.remote_address) [[likely]] {
    put_operation<SendOpcode::kRdmaWrite>(at, request);
    at += wqe::RemoteAddressSegment::kBytes;
  }
  if (!put_data_segment(at, sges.front())) [[unlikely]] {
    return nullptr;
  }
  put_transport<kTransport>(wqe, request);
  put_front(wqe, recipe.control, flags, request.immediate_big_endian() & recipe.immediate_mask, next);
  slots_[index] = {request.wr_id(), head + 1, static_cast<std::uint32_t>(recipe.completion)};
  position_.head = head + 1;
  position_.next_wqebb = next + 1;
  return wqe;
}

[[gnu::always_inline]] inline void SendQueue::publish_block(const std::byte* wqe) {
  if (blueflame_ != nullptr) [[likely]] {
    doorbell::submit_block(record_, position_.next_wqebb, *blueflame_, wqe);
  } else {
    publish_list(wqe);
  }
}

// A request of any kind, behind the last one; nothing is counted if it is refused.
template <SendTransport kTransport, typename Request>
[[gnu::noinline]] SendQueue::Built SendQueue::build(const Request request) {
  const SendOpcode opcode = request.opcode();
  if (!has_room(position_.head)) {
    return {.refusal = refused_room()};
  }
  if (!takes<kTransport>(opcode)) {
    return {.refusal = refused_opcode(opcode)};
  }
  const std::uint32_t first = position_.next_wqebb;
  const SendForm& form = form_of(opcode);
  Built built;
  if (form.atomic) {
    built = opcode == SendOpcode::kFetchAdd ? build_atomic<kTransport, SendOpcode::kFetchAdd>(request)
                                            : build_atomic<kTransport, SendOpcode::kCompareSwap>(request);
  } else if (form.umr) {
    const WindowBinding binding = opcode == SendOpcode::kBindMemoryWindow ? request.window() : WindowBinding{};
    const std::uint32_t key = opcode == SendOpcode::kBindMemoryWindow ? binding.old_rkey : request.invalidate_rkey();
    built = build_umr(opcode, binding, key, request.wr_id(), request.flags(), position_);
    short_until_ = position_.head;
  } else {
    const std::uint32_t immediate = form.immediate    ? request.immediate_big_endian()
                                    : form.invalidate ? wqe::internal::big_endian(request.invalidate_rkey())
                                                      : 0;
    built = build_data<kTransport>(request, form, immediate);
  }
  if (config_.wqe_signature && built.octowords != 0) {
    sign(first, built.octowords);
  }
  return built;
}

// A request of an opcode that carries data, and at most a remote address and an immediate beside it.
template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline SendQueue::Built SendQueue::build_data(const Request& request, const SendForm& form,
                                                              std::uint32_t immediate_big_endian) {
  constexpr std::size_t kFront = wqe::ControlSegment::kBytes + transport_bytes(kTransport);
  const std::span<const Sge> sges = request.sges();
  if (sges.size() > max_sge_) [[unlikely]] {
    return {.refusal = Refusal::kSges};
  }
  std::byte* const wqe = ring_.wqebb(position_.next_wqebb);
  if (!put_transport<kTransport>(wqe, request)) [[unlikely]] {
    return {.refusal = Refusal::kNoDestination};
  }
  std::byte* at = operation_at<kTransport>(wqe);
  unsigned octowords = kFront / wqe::kOctowordBytes;
  if constexpr (kTransport != SendTransport::kDatagram) {
    if (form.remote_address) [[likely]] {
      put_operation<SendOpcode::kRdmaWrite>(at, request);
      at += wqe::RemoteAddressSegment::kBytes;
      octowords += wqe::RemoteAddressSegment::kBytes / wqe::kOctowordBytes;
    }
  }
  unsigned data_octowords;
  if (!request.flags().has(SendFlag::kInline)) [[likely]] {
    data_octowords = ring_.put_pointers(at, sges);
    if (data_octowords == SendRing::kRefused) [[unlikely]] {
      return {.refusal = Refusal::kLength};
    }
  } else {
    if (!form.may_inline) [[unlikely]] {
      return {.refusal = Refusal::kNotInline};
    }
    data_octowords = ring_.put_inline(at, std::span(static_cast<const InlineSge*>(sges.data()), sges.size()),
                                      config_.max_inline_bytes);
    if (data_octowords == SendRing::kRefused) [[unlikely]] {
      return {.refusal = Refusal::kInline};
    }
  }
  octowords += data_octowords;
  put_control(wqe, form.opcode, octowords, request.flags(), immediate_big_endian, position_);
  if constexpr (kTransport == SendTransport::kDc) {
    put_stream(wqe, request.dci_stream());
  }
  put_slot(request.wr_id(), form.completion, position_);
  position_.next_wqebb += static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
  return {wqe, octowords};
}

template <SendTransport kTransport, SendOpcode kOpcode, typename Request>
SendQueue::Built SendQueue::build_atomic(const Request& request) {
  if constexpr (!transport_has(kTransport, kOpcode)) {
    return {.refusal = Refusal::kOpcode};
  } else {
    constexpr SendForm kForm = send_form(kOpcode);
    const std::span<const Sge> sges = request.sges();
    if (sges.size() > max_sge_) {
      return {.refusal = Refusal::kSges};
    }
    if (request.flags().has(SendFlag::kInline)) {
      return {.refusal = Refusal::kNotInline};
    }
    std::byte* const wqe = ring_.wqebb(position_.next_wqebb);
    if (!put_transport<kTransport>(wqe, request)) {
      return {.refusal = Refusal::kNoDestination};
    }
    put_operation<kOpcode>(operation_at<kTransport>(wqe), request);
    constexpr std::size_t kFront = header_bytes(kTransport, kOpcode);
    const unsigned data_octowords = ring_.put_pointers<kAtomicBytes>(ring_.behind<kFront>(wqe), sges);
    if (data_octowords == SendRing::kRefused) {
      return {.refusal = Refusal::kLength};
    }
    const unsigned octowords = kFront / wqe::kOctowordBytes + data_octowords;
    put_control(wqe, kForm.opcode, octowords, request.flags(), 0, position_);
    if constexpr (kTransport == SendTransport::kDc) {
      put_stream(wqe, request.dci_stream());
    }
    put_slot(request.wr_id(), kForm.completion, position_);
    position_.next_wqebb += static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
    return {wqe, octowords};
  }
}

}  // namespace umlx5
