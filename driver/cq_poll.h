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
static_assert(wqe::offset_bits_of(&wqe::Cqe::wqe_id) == 2 * 8);
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
  return wqe::internal::load_word<std::uint32_t>(cqe + number_offset_) & kNumberMask;
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
  std::uint16_t counter = internal::wqe_counter_of(cqe);
  if (kind > wqe::CqeOpcode::kResponderSendInvalidate || owner == nullptr) [[unlikely]] {
    TakenCqe copy = taken;  // lets the caller's stay in registers
    const bool completes = take_unusual(copy);
    taken = copy;
    return completes;
  }
  if (wqe::cqe_format(op_own) != wqe::CqeFormat::kNone) [[unlikely]] {
    taken.status = unpack(TakenCqe(taken));
    taken.op_own = CompletionRing::op_own(cqe);
    counter = internal::wqe_counter_of(cqe);
  }
  if (kind == wqe::CqeOpcode::kRequester) {
    if (owner->send == nullptr) [[unlikely]] {
      return leave_out(TakenCqe(taken));
    }
    const SendQueue::Completed completed = owner->send->completed(counter);
    owner->send->complete_through(completed);
    taken.wr_id = completed.wr_id;
    taken.opcode = completed.opcode;
    return true;
  }
  if (owner->receive != nullptr) [[likely]] {
    taken.wr_id = owner->receive->wr_id(counter);
    owner->receive->complete(1);
  } else if (owner->shared != nullptr) {
    taken.wr_id = owner->shared->complete(counter);
  } else if (owner->striding != nullptr) {
    taken.wr_id = owner->striding->complete(wqe::internal::load_word<std::uint16_t>(cqe + 2), {taken.word(44)});
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

// The native form. What a completed send has not, in a few stores.
[[gnu::always_inline]] inline void Cq::fill(const TakenCqe& taken, Completion& completion) {
  completion.wr_id = taken.wr_id;
  completion.qp = taken.owner->qp;
  completion.srq = nullptr;
  completion.qpn = taken.qpn();
  completion.status = taken.status;
  completion.opcode = taken.opcode;
  completion.has_immediate = false;
  completion.has_invalidated_rkey = false;
  completion.syndrome = 0;
  completion.vendor_syndrome = 0;
  completion.byte_count = taken.byte_count();
  completion.immediate_big_endian = 0;
  completion.device_timestamp = taken.timestamp();
  completion.source_word = 0;
  completion.frame_word = 0;
  if (taken.status != CompletionStatus::kSuccess || taken.opcode >= CompletionOpcode::kRecv) {
    fill_more(taken.cqe, taken.op_own, *taken.owner, completion);
  }
}

// Whether the CQE at `cqe` is the device's latest word, and of the same queue and kind as one with this `op_own` and
// `number_word` in the same lap of the ring.
[[gnu::always_inline]] inline bool Cq::continues_run(const std::byte* cqe, std::uint8_t op_own,
                                                     std::uint32_t number_word) const {
  constexpr std::uint32_t kNumberMask = 0xffffff;
  if (CompletionRing::op_own(cqe) != op_own) [[unlikely]] {
    return false;
  }
  doorbell::NativeIo::from_device();
  return ((wqe::internal::load_word<std::uint32_t>(cqe + number_offset_) ^ number_word) & kNumberMask) == 0;
}

// The completions that follow the one in `taken`, of the same queue and kind: what is the same for all of them is
// looked at once. `read` gets each one's request. How many.
template <typename Give, typename Read>
[[gnu::always_inline]] inline std::uint32_t Cq::take_run(TakenCqe& taken, std::size_t most, Give& give, Read read) {
  const std::byte* cqe = taken.cqe;
  const std::uint8_t op_own = taken.op_own;
  const std::uint32_t number_word = taken.word(number_offset_);
  const std::size_t stride = ring_.entry_bytes();
  const std::uint32_t left_in_lap = ring_.entries() - 1 - ((consumer_index_ - 1) & (ring_.entries() - 1));
  const auto limit = static_cast<std::uint32_t>(most < left_in_lap ? most : left_in_lap);
  std::uint32_t count = 0;
  for (; count != limit; ++count) {
    cqe += stride;
    __builtin_prefetch(cqe + stride);
    if (!continues_run(cqe, op_own, number_word)) [[unlikely]] {
      break;
    }
    taken.cqe = cqe;
    read(internal::wqe_counter_of(cqe));
    give(taken);
  }
  consumer_index_ += count;
  return count;
}

template <typename Give>
[[gnu::always_inline]] inline std::size_t Cq::take_all(std::size_t most, Give give) {
  std::size_t count = 0;
  TakenCqe taken;
  while (count < most && take_next(taken)) {
    give(taken);
    ++count;
    if (taken.status != CompletionStatus::kSuccess || wqe::cqe_format(taken.op_own) != wqe::CqeFormat::kNone)
        [[unlikely]] {
      continue;
    }
    if (taken.kind() == wqe::CqeOpcode::kRequester) {
      SendQueue& queue = *taken.owner->send;
      SendQueue::Completed last{};
      const std::uint32_t run = take_run(taken, most - count, give, [&](std::uint16_t counter) {
        last = queue.completed(counter);
        taken.wr_id = last.wr_id;
        taken.opcode = last.opcode;
      });
      if (run != 0) {
        queue.complete_through(last);
        count += run;
      }
    } else if (taken.owner->receive != nullptr) {
      ReceiveQueue& queue = *taken.owner->receive;
      const std::uint32_t run =
          take_run(taken, most - count, give, [&](std::uint16_t counter) { taken.wr_id = queue.wr_id(counter); });
      queue.complete(run);
      count += run;
    }
  }
  return count;
}

}  // namespace umlx5
