// Taking CQEs off a completion queue: the part of polling that is the same whatever form the completions are given in.
// Nothing here enters the kernel, allocates, or waits for another thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "doorbell/io.h"
#include "driver/cq.h"
#include "driver/queue_owner.h"
#include "driver/work_request.h"
#include "wqe/cqe.h"
#include "wqe/syndrome.h"

namespace umlx5 {

// A CQE that completes a request, whose place in its queue is free by now.
struct TakenCqe {
  const std::byte* cqe = nullptr;  // in the ring: to be read before the consumer index is published
  const QueueOwner* owner = nullptr;
  std::uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;
  std::uint8_t op_own = 0;

  // Fields of the CQE, host order, one load each (wqe/cqe.h has them all).
  wqe::CqeOpcode kind() const { return wqe::cqe_opcode(op_own); }
  bool is_error() const { return kind() >= wqe::CqeOpcode::kRequesterError; }
  std::uint32_t word(std::size_t offset) const { return wqe::internal::load_word<std::uint32_t>(cqe + offset); }
  std::uint32_t immediate() const { return word(36); }
  std::uint32_t source_word() const { return word(24); }
  std::uint32_t qpn() const { return word(56) & 0xffffff; }
  std::uint64_t timestamp() const { return wqe::internal::load_word<std::uint64_t>(cqe + 48); }
  // Bytes received or read; 8 for atomics, 0 for what else a requester did.
  std::uint32_t byte_count() const {
    return opcode >= CompletionOpcode::kRecv || opcode == CompletionOpcode::kRdmaRead ? word(44) : is_atomic() ? 8 : 0;
  }
  bool is_atomic() const { return opcode == CompletionOpcode::kCompareSwap || opcode == CompletionOpcode::kFetchAdd; }
};

static_assert(wqe::offset_bits_of(&wqe::Cqe::wqe_counter) == 60 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::byte_count) == 44 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::immediate) == 36 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::timestamp) == 48 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::send_opcode) == 56 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::srqn_or_user_index) == 33 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::qpn) == 57 * 8);
static_assert(wqe::offset_bits_of(&wqe::Cqe::source_qpn) == 25 * 8);

namespace internal {

// What a requester's CQE says about its opcode, where the queue does not know better.
inline constexpr std::array<CompletionOpcode, 256> kOpcodeOfWqe = [] {
  std::array<CompletionOpcode, 256> table{};
  const auto set = [&](wqe::SendOpcode wqe_opcode, CompletionOpcode opcode) {
    table[static_cast<std::uint8_t>(wqe_opcode)] = opcode;
  };
  set(wqe::SendOpcode::kRdmaWrite, CompletionOpcode::kRdmaWrite);
  set(wqe::SendOpcode::kRdmaWriteImmediate, CompletionOpcode::kRdmaWrite);
  set(wqe::SendOpcode::kRdmaRead, CompletionOpcode::kRdmaRead);
  set(wqe::SendOpcode::kAtomicCompareSwap, CompletionOpcode::kCompareSwap);
  set(wqe::SendOpcode::kAtomicFetchAdd, CompletionOpcode::kFetchAdd);
  set(wqe::SendOpcode::kTso, CompletionOpcode::kTso);
  set(wqe::SendOpcode::kUmr, CompletionOpcode::kUmr);
  set(wqe::SendOpcode::kMmo, CompletionOpcode::kMemcpy);
  return table;
}();

inline std::uint16_t wqe_counter_of(const std::byte* cqe) { return wqe::internal::load_word<std::uint16_t>(cqe + 60); }

}  // namespace internal

inline std::uint32_t Cq::number_of(const std::byte* cqe) const {
  constexpr std::uint32_t kNumberMask = 0xffffff;
  return wqe::internal::load_word<std::uint32_t>(cqe + (by_user_index_ ? 32 : 56)) & kNumberMask;
}

[[gnu::always_inline]] inline const QueueOwner* Cq::owner_of(const std::byte* cqe) {
  const std::uint32_t number = number_of(cqe);
  return number == cached_number_ ? &cached_owner_ : find_owner(number);
}

[[gnu::always_inline]] inline bool Cq::take(const std::byte* cqe, std::uint8_t op_own, TakenCqe& taken) {
  const QueueOwner* const owner = owner_of(cqe);
  taken.cqe = cqe;
  taken.owner = owner;
  taken.op_own = op_own;
  taken.status = CompletionStatus::kSuccess;
  const wqe::CqeOpcode kind = wqe::cqe_opcode(op_own);
  const std::uint16_t counter = internal::wqe_counter_of(cqe);
  if (kind > wqe::CqeOpcode::kResponderSendInvalidate || owner == nullptr) [[unlikely]] {
    TakenCqe copy = taken;  // lets the caller's stay in registers
    const bool completes = take_unusual(copy);
    taken = copy;
    return completes;
  }
  if (wqe::cqe_format(op_own) != wqe::CqeFormat::kNone) [[unlikely]] {
    taken.status = scatter(TakenCqe(taken));
  }
  if (kind == wqe::CqeOpcode::kRequester) {
    if (owner->send == nullptr) [[unlikely]] {
      return leave_out(TakenCqe(taken));
    }
    const SendQueue::Completed completed = owner->send->complete(counter);
    taken.wr_id = completed.wr_id;
    taken.opcode = completed.has_opcode ? completed.opcode : internal::kOpcodeOfWqe[static_cast<std::uint8_t>(cqe[56])];
    return true;
  }
  if (owner->receive != nullptr) [[likely]] {
    taken.wr_id = owner->receive->complete(counter);
  } else if (owner->shared != nullptr) {
    taken.wr_id = owner->shared->complete(counter);
  } else {
    return leave_out(TakenCqe(taken));
  }
  taken.opcode =
      kind == wqe::CqeOpcode::kResponderWriteImmediate ? CompletionOpcode::kRecvRdmaWithImm : CompletionOpcode::kRecv;
  return true;
}

[[gnu::always_inline]] inline bool Cq::take_next(TakenCqe& taken) {
  for (;;) {
    const std::uint32_t index = consumer_index_;
    const std::uint8_t op_own = ring_.op_own(index);
    if (!ring_.is_ready(index, op_own)) {
      return false;
    }
    doorbell::NativeIo::from_device();
    consumer_index_ = index + 1;
    if (take(ring_.cqe(index), op_own, taken)) [[likely]] {
      return true;
    }
  }
}

}  // namespace umlx5
