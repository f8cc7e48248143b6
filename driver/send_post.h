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
  if (static_cast<std::int32_t>(short_until_ - head) <= 0 || opcode >= kRecipes || kTransport == SendTransport::kDc)
      [[unlikely]] {
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
  write_slot(index, request.wr_id(), head + 1, recipe.completion);
  position_.head = head + 1;
  const auto octowords = static_cast<unsigned>(control) & wqe::kMaxDsOctowords;
  position_.next_wqebb = next + static_cast<std::uint32_t>(wqe::wqebbs_for_octowords(octowords));
  return publish_unusual(wqe, octowords, position_.next_wqebb);
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
    publish_one(last, position_.next_wqebb);
  } else if (count != 0) {
    publish_list(last, position_.next_wqebb);
  }
  source_of_caller = source;
  return refusal;
}

// The recipe of a request that put_short() takes; null: it is of another kind.
template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline const SendQueue::Recipe* SendQueue::short_recipe(const Request& request) const {
  constexpr bool kFitsBlock = wqe::ControlSegment::kBytes + transport_bytes(kTransport) +
                                  wqe::RemoteAddressSegment::kBytes + wqe::DataSegment::kBytes <=
                              wqe::kWqebbBytes;
  const auto opcode = static_cast<std::uint32_t>(request.opcode());
  if (!kFitsBlock || opcode >= kRecipes) [[unlikely]] {
    return nullptr;
  }
  const Recipe& recipe = recipes_[opcode];
  const std::span<const Sge> sges = request.sges();
  if (recipe.control == 0 || sges.size() != 1 || request.flags().has(SendFlag::kInline) ||
      !is_plain_length(sges.front())) [[unlikely]] {
    return nullptr;
  }
  return &recipe;
}

// Writes such a request to block `next`, as number `request_number`.
template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline std::byte* SendQueue::write_short(const Request& request, const Recipe& recipe,
                                                                std::uint32_t next, std::uint32_t request_number) {
  const std::uint32_t index = next & ring_.wqebb_mask();
  std::byte* const wqe = ring_.begin() + std::size_t{index} * wqe::kWqebbBytes;
  std::byte* at = wqe + wqe::ControlSegment::kBytes + transport_bytes(kTransport);
  if (recipe.remote_address) [[likely]] {
    put_operation<SendOpcode::kRdmaWrite>(at, request);
    at += wqe::RemoteAddressSegment::kBytes;
  }
  put_plain_data_segment(at, request.sges().front());
  put_transport<kTransport>(wqe, request);
  put_front(wqe, recipe.control, request.flags(), request.immediate_big_endian() & recipe.immediate_mask, next);
  write_slot(index, request.wr_id(), request_number + 1, recipe.completion);
  return wqe;
}

// Null: not a request of this kind, or no room for it; nothing was counted.
template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline std::byte* SendQueue::put_short(const Request& request) {
  const std::uint32_t head = position_.head;
  const Recipe* const recipe = short_recipe<kTransport>(request);
  if (recipe == nullptr || static_cast<std::int32_t>(short_until_ - head) <= 0) [[unlikely]] {
    return nullptr;
  }
  const std::uint32_t next = position_.next_wqebb;
  std::byte* const wqe = write_short<kTransport>(request, *recipe, next, head);
  position_.head = head + 1;
  position_.next_wqebb = next + 1;
  return wqe;
}

// A request of any kind, behind the last one; nothing is counted if it is refused.
template <SendTransport kTransport, typename Request>
[[gnu::noinline]] SendQueue::Built SendQueue::build(const Request request) {
  if (!has_room(position_.head)) {
    return {.refusal = refused_room()};
  }
  const Built built = build_at<kTransport>(request, ring_, position_);
  if (built.octowords != 0) {
    count_in(built, request.wr_id(), position_);
    if (built.changes_key) {
      short_until_ = position_.head;
    }
  }
  return built;
}

// A request of any kind in `ring`, at `position`, which stays.
template <SendTransport kTransport, typename Request>
[[gnu::always_inline]] inline SendQueue::Built SendQueue::build_at(const Request& request, const SendRing& ring,
                                                                   const Position& position) {
  const SendOpcode opcode = request.opcode();
  if constexpr (kTransport == SendTransport::kRaw) {
    const bool is_frame = opcode == SendOpcode::kSend || opcode == SendOpcode::kTso;
    return is_frame ? put_frame(request.frame(), ring, position) : Built{.refusal = Refusal::kOpcode};
  }
  if (!takes<kTransport>(opcode)) {
    return {.refusal = refused_opcode(opcode)};
  }
  const SendForm& form = form_of(opcode);
  if (form.atomic) {
    return opcode == SendOpcode::kFetchAdd
               ? build_atomic<kTransport, SendOpcode::kFetchAdd>(request, ring, position)
               : build_atomic<kTransport, SendOpcode::kCompareSwap>(request, ring, position);
  }
  if (form.umr) {
    const WindowBinding binding = opcode == SendOpcode::kBindMemoryWindow ? request.window() : WindowBinding{};
    const std::uint32_t key = opcode == SendOpcode::kBindMemoryWindow ? binding.old_rkey : request.invalidate_rkey();
    return build_umr(opcode, binding, key, request.flags(), ring, position);
  }
  const std::uint32_t immediate = form.immediate    ? request.immediate_big_endian()
                                  : form.invalidate ? wqe::internal::big_endian(request.invalidate_rkey())
                                                    : 0;
  return build_data<kTransport>(request, form, immediate, ring, position);
}

// A request of an opcode that carries data, and at most a remote address and an immediate beside it.
template <SendTransport kTransport, typename Request>
SendQueue::Built SendQueue::build_data(const Request& request, const SendForm& form, std::uint32_t immediate_big_endian,
                                       const SendRing& ring, const Position& position) {
  const std::span<const Sge> sges = request.sges();
  if (sges.size() > max_sge_) {
    return {.refusal = Refusal::kSges};
  }
  std::byte* const wqe = ring.wqebb(position.next_wqebb);
  if (!put_transport<kTransport>(wqe, request)) {
    return {.refusal = Refusal::kNoDestination};
  }
  std::byte* at = operation_at<kTransport>(ring, wqe);
  unsigned octowords = (wqe::ControlSegment::kBytes + transport_bytes(kTransport)) / wqe::kOctowordBytes;
  if constexpr (kTransport != SendTransport::kDatagram) {
    if (form.remote_address) {
      put_operation<SendOpcode::kRdmaWrite>(at, request);
      at += wqe::RemoteAddressSegment::kBytes;
      octowords += wqe::RemoteAddressSegment::kBytes / wqe::kOctowordBytes;
    }
  }
  unsigned data_octowords;
  if (!request.flags().has(SendFlag::kInline)) {
    data_octowords = ring.put_pointers(at, sges);
    if (data_octowords == SendRing::kRefused) {
      return {.refusal = Refusal::kLength};
    }
  } else {
    if (!form.may_inline) {
      return {.refusal = Refusal::kNotInline};
    }
    data_octowords = ring.put_inline(at, std::span(static_cast<const InlineSge*>(sges.data()), sges.size()),
                                     config_.max_inline_bytes);
    if (data_octowords == SendRing::kRefused) {
      return {.refusal = Refusal::kInline};
    }
  }
  octowords += data_octowords;
  put_control(wqe, form.opcode, octowords, request.flags(), immediate_big_endian, position);
  if constexpr (kTransport == SendTransport::kDc) {
    put_stream(wqe, request.dci_stream());
  }
  return {.wqe = wqe, .octowords = octowords, .completion = form.completion};
}

template <SendTransport kTransport, SendOpcode kOpcode, typename Request>
SendQueue::Built SendQueue::build_atomic(const Request& request, const SendRing& ring, const Position& position) {
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
    std::byte* const wqe = ring.wqebb(position.next_wqebb);
    if (!put_transport<kTransport>(wqe, request)) {
      return {.refusal = Refusal::kNoDestination};
    }
    put_operation<kOpcode>(operation_at<kTransport>(ring, wqe), request);
    constexpr std::size_t kFront = header_bytes(kTransport, kOpcode);
    const unsigned data_octowords = ring.put_pointers<kAtomicBytes>(ring.behind<kFront>(wqe), sges);
    if (data_octowords == SendRing::kRefused) {
      return {.refusal = Refusal::kLength};
    }
    const unsigned octowords = kFront / wqe::kOctowordBytes + data_octowords;
    put_control(wqe, kForm.opcode, octowords, request.flags(), 0, position);
    if constexpr (kTransport == SendTransport::kDc) {
      put_stream(wqe, request.dci_stream());
    }
    return {.wqe = wqe, .octowords = octowords, .completion = kForm.completion};
  }
}

}  // namespace umlx5
