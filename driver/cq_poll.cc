// Taking completions: what is seldom, and the native form.
#include "driver/cq_poll.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "driver/compressed_cqes.h"
#include "driver/context_state.h"
#include "driver/cq.h"
#include "driver/log.h"
#include "driver/qp.h"
#include "driver/srq.h"
#include "driver/user_index_table.h"
#include "driver/wq.h"

namespace umlx5 {
QueueOwner Cq::owner_of_number(std::uint32_t number) const {
  if (Qp* const qp = queues_->find(number)) {
    Srq* const srq = qp->srq_;
    return {.send = &qp->send_,
            .receive = srq == nullptr ? &qp->recv_ : nullptr,
            .shared = srq == nullptr ? nullptr : &srq->queue(),
            .qp = qp,
            .srq = srq};
  }
  if (Srq* const srq = queues_->find_srq(number)) {
    return {.shared = &srq->queue(), .srq = srq};
  }
  if (Wq* const wq = queues_->find_wq(number)) {
    return wq->striding() != nullptr ? QueueOwner{.striding = wq->striding()} : QueueOwner{.receive = &wq->queue()};
  }
  return {};
}

// Remembers the one that it finds: completions of one queue mostly come in a row.
[[gnu::noinline]] const QueueOwner* Cq::find_owner(std::uint32_t number) {
  const QueueOwner owner = owner_of_number(number);
  if (owner.send == nullptr && owner.receive == nullptr && owner.shared == nullptr && owner.striding == nullptr) {
    return nullptr;
  }
  cached_owner_ = owner;
  cached_number_ = number;
  return &cached_owner_;
}

// Writes the CQEs that a title of this op_own stands for in its place and behind it. False if it is none.
[[gnu::noinline]] bool Cq::expand(std::byte* cqe, std::uint8_t op_own) const {
  return mini_format_ && wqe::is_compression_title(op_own) &&
         expand_session(ring_, cqe, *mini_format_, owner_of_number(number_of(cqe)).striding != nullptr);
}

// What is more than one CQE, or carries data.
[[gnu::noinline]] CompletionStatus Cq::unpack(const TakenCqe& taken) {
  if (expand(ring_.cqe(ring_.slot_of(taken.cqe)), taken.op_own)) {
    return CompletionStatus::kSuccess;
  }
  return scatter(taken);
}

// Data that lies in the CQE goes where the request wanted it.
[[gnu::noinline]] CompletionStatus Cq::scatter(const TakenCqe& taken) {
  const wqe::CqeFormat format = wqe::cqe_format(taken.op_own);
  const bool large = format == wqe::CqeFormat::kInline64;
  if (format == wqe::CqeFormat::kCompressed || (large && ring_.entry_bytes() != wqe::kLargeCqeBytes)) {
    return CompletionStatus::kLocalLength;  // never asked for, or no session
  }
  const std::size_t room = large ? wqe::kInlineScatter64Bytes : wqe::kInlineScatter32Bytes;
  const bool requester = taken.kind() == wqe::CqeOpcode::kRequester;
  const auto opcode = internal::kOpcodeOfWqe[static_cast<std::uint8_t>(taken.cqe[56])];
  const bool atomic = requester && (opcode == CompletionOpcode::kCompareSwap || opcode == CompletionOpcode::kFetchAdd);
  const std::size_t count = atomic ? 8 : taken.word(44);
  if (count > room) {
    return CompletionStatus::kLocalLength;
  }
  const std::span data(large ? taken.cqe - wqe::kInlineScatter64Bytes : taken.cqe, count);
  const std::uint16_t counter = internal::wqe_counter_of(taken.cqe);
  const QueueOwner& owner = *taken.owner;
  const bool fits = requester                  ? owner.send == nullptr || owner.send->scatter(counter, data, null_lkey_)
                    : owner.receive != nullptr ? owner.receive->scatter(counter, data, null_lkey_)
                    : owner.shared != nullptr  ? owner.shared->scatter(counter, data, null_lkey_)
                                               : true;
  return fits ? CompletionStatus::kSuccess : CompletionStatus::kLocalLength;
}

// Errors, and entries that are nobody's completion: then false.
[[gnu::noinline]] bool Cq::take_unusual(TakenCqe& taken) {
  if (taken.kind() == wqe::CqeOpcode::kSignatureError) {
    tell_mkey(taken);
    return false;
  }
  expand(ring_.cqe(ring_.slot_of(taken.cqe)), taken.op_own);  // of a queue that is not known: all of it is nobody's
  const bool requester = taken.kind() == wqe::CqeOpcode::kRequesterError;
  const QueueOwner* const owner = taken.owner;
  if (owner == nullptr || (!requester && taken.kind() != wqe::CqeOpcode::kResponderError)) {
    return leave_out(taken);
  }
  const auto error = wqe::load<wqe::ErrorCqe>(taken.cqe);
  taken.status = wqe::status_of(error.syndrome);
  if (requester && owner->send != nullptr) {
    const SendQueue::Completed completed = owner->send->completed(error.wqe_counter);
    owner->send->complete_through(completed);
    taken.wr_id = completed.wr_id;
    taken.opcode = completed.opcode;
  } else if (!requester && owner->receive != nullptr) {
    taken.wr_id = owner->receive->wr_id(error.wqe_counter);
    owner->receive->complete(1);
    taken.opcode = CompletionOpcode::kRecv;
  } else if (!requester && owner->shared != nullptr) {
    taken.wr_id = owner->shared->complete(error.wqe_counter);
    taken.opcode = CompletionOpcode::kRecv;
  } else if (!requester && owner->striding != nullptr) {
    taken.wr_id = owner->striding->fail(error.wqe_counter);
    taken.opcode = CompletionOpcode::kRecv;
  } else {
    return leave_out(taken);
  }
  if (taken.status != CompletionStatus::kWorkRequestFlushed && log_enabled(LogLevel::kInfo)) {
    Completion completion;
    fill(taken, completion);
    log(LogLevel::kInfo, describe(completion));
  }
  return true;
}

void Cq::tell_mkey(const TakenCqe& taken) {
  const auto cqe = wqe::load<wqe::SignatureErrorCqe>(taken.cqe);
  if (!context_->state().mkey_table.tell(cqe)) {
    leave_out(taken);
  } else if (log_enabled(LogLevel::kInfo)) {
    log(LogLevel::kInfo, fmt::format("CQ {:#x}: {}", cqn_, wqe::print(cqe)));
  }
}

// An entry that is nobody's completion is consumed all the same.
[[gnu::noinline]] bool Cq::leave_out(const TakenCqe& taken) {
  if (log_enabled(LogLevel::kError)) {
    log(LogLevel::kError, fmt::format("CQ {:#x}: entry {} is left out: {}", cqn_, consumer_index_ - 1,
                                      wqe::print(wqe::load<wqe::Cqe>(taken.cqe))));
  }
  return false;
}

// What an error or a receive has beside that.
[[gnu::noinline]] void Cq::fill_more(const std::byte* cqe, std::uint8_t op_own, const QueueOwner& owner,
                                     Completion& completion) {
  const TakenCqe taken{.cqe = cqe, .op_own = op_own};
  if (completion.status != CompletionStatus::kSuccess) [[unlikely]] {
    const bool error = taken.is_error();
    completion.syndrome =
        error ? static_cast<std::uint8_t>(cqe[55]) : static_cast<std::uint8_t>(wqe::ErrorSyndrome::kLocalLength);
    completion.vendor_syndrome = error ? static_cast<std::uint8_t>(cqe[54]) : 0;
    completion.byte_count = 0;
    completion.device_timestamp = 0;
    return;
  }
  completion.srq = owner.srq;
  completion.source_word = owner.striding == nullptr ? taken.source_word() : internal::wqe_counter_of(cqe);
  completion.frame_word = taken.word(28);
  if (taken.kind() == wqe::CqeOpcode::kResponderSendInvalidate) {
    completion.has_invalidated_rkey = true;
    completion.immediate_big_endian = taken.immediate();
  } else if (taken.kind() != wqe::CqeOpcode::kResponderSend) {
    completion.has_immediate = true;
    completion.immediate_big_endian = wqe::internal::big_endian(taken.immediate());
  }
}

std::size_t Cq::poll(std::span<Completion> completions) {
  if (has_many_pollers_) [[unlikely]] {
    return poll_beside_others(completions);
  }
  const std::uint32_t before = consumer_index_;
  Completion* to = completions.data();
  const std::size_t count = take_all(completions.size(), [&](const TakenCqe& taken) { fill(taken, *to++); });
  if (consumer_index_ != before) {
    publish_consumer_index();
  }
  return count;
}

}  // namespace umlx5
