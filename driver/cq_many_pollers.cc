// Polling a completion queue by several threads at once, none of which waits for another.
//
// A poller looks at the entries from the consumer index on and copies all that their completions need, without taking
// anything; then it claims them by one compare-and-swap of the index. If that fails, another poller has taken some of
// them, and what was copied may be anything: it is thrown away. Only what was claimed counts for the queues. An entry
// whose completion does more than that (an error, data in the CQE, a shared receive queue) is taken by one poller
// alone; the others find nothing meanwhile. A title of compressed CQEs is made into what it stands for by one alone,
// then is anybody's.
//
// Invariants (tests/model/poll.pml): every entry is taken once, in one batch's order; the published consumer index only
// grows, and never passes an entry that somebody still reads.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "driver/cq_poll.h"

namespace umlx5 {
namespace {

// Another thread may take the entry, and the device write it again, meanwhile.
void copy_cqe(std::byte* to, const std::byte* from) {
  for (std::size_t at = 0; at != wqe::kCqeBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from + at), __ATOMIC_RELAXED);
    std::memcpy(to + at, &word, sizeof word);
  }
}

}  // namespace

// What a poller copied, and what the queues are told once it is claimed.
struct Cq::Batch {
  struct Run {
    SendQueue* send = nullptr;  // with `last`; null: `receives` of `receive`
    SendQueue::Completed last{};
    ReceiveQueue* receive = nullptr;
    std::uint32_t receives = 0;
  };
  std::array<Run, 8> runs;
  std::size_t run_count = 0;
  std::uint32_t count = 0;       // completions
  bool next_is_unusual = false;  // the entry behind them is to be taken alone
  bool next_is_title = false;    // it stands for more than one, which have to be written before any is taken

  // Where the next entry of these queues counts; null: there are too many.
  Run* run_of(SendQueue* send, ReceiveQueue* receive) {
    if (run_count != 0 && runs[run_count - 1].send == send && runs[run_count - 1].receive == receive) {
      return &runs[run_count - 1];
    }
    if (run_count == runs.size()) {
      return nullptr;
    }
    runs[run_count] = {.send = send, .receive = receive};
    return &runs[run_count++];
  }
};

void Cq::look_ahead(std::uint32_t first, std::span<Completion> completions, Batch& batch) const {
  QueueOwner owner;
  std::uint32_t owner_number = ~0u;
  alignas(wqe::kCqeBytes) std::byte cqe[wqe::kCqeBytes];
  for (; batch.count != completions.size() && batch.count != ring_.entries(); ++batch.count) {
    const std::uint32_t index = first + batch.count;
    const std::uint8_t op_own = ring_.op_own(index);
    if (!ring_.is_ready(index, op_own)) {
      return;
    }
    doorbell::NativeIo::from_device();
    copy_cqe(cqe, ring_.cqe(index));
    if (const std::uint32_t number = number_of(cqe); number != owner_number) {
      owner = owner_of_number(number);
      owner_number = number;
    }
    const wqe::CqeOpcode kind = wqe::cqe_opcode(op_own);
    const bool is_send = kind == wqe::CqeOpcode::kRequester;
    if (kind > wqe::CqeOpcode::kResponderSendInvalidate || wqe::cqe_format(op_own) != wqe::CqeFormat::kNone ||
        (is_send ? owner.send == nullptr : owner.receive == nullptr)) {
      batch.next_is_unusual = true;
      batch.next_is_title = mini_format_ && wqe::is_compression_title(op_own);
      return;
    }
    Batch::Run* const run = batch.run_of(is_send ? owner.send : nullptr, is_send ? nullptr : owner.receive);
    if (run == nullptr) {
      return;
    }
    TakenCqe taken{.cqe = cqe, .owner = &owner, .op_own = op_own};
    if (is_send) {
      run->last = owner.send->completed(internal::wqe_counter_of(cqe));
      taken.wr_id = run->last.wr_id;
      taken.opcode = run->last.opcode;
    } else {
      ++run->receives;
      taken.wr_id = owner.receive->wr_id(internal::wqe_counter_of(cqe));
      taken.opcode = kind == wqe::CqeOpcode::kResponderWriteImmediate ? CompletionOpcode::kRecvRdmaWithImm
                                                                      : CompletionOpcode::kRecv;
    }
    fill(taken, completions[batch.count]);
  }
}

// The entry at `index` is unusual: while it is there, nobody can claim what is behind it. `taken`: it is gone, by this
// call or another one, or is a title no more. True: it was a completion.
bool Cq::take_alone(std::uint32_t index, bool was_title, Completion& completion, bool& taken) {
  taken = !is_taken_alone_.exchange(true, std::memory_order_acquire);
  if (!taken) {
    return false;
  }
  bool completes = false;
  if (__atomic_load_n(&consumer_index_, __ATOMIC_ACQUIRE) == index) {
    std::byte* const cqe = ring_.cqe(index);
    const std::uint8_t op_own = CompletionRing::op_own(cqe);
    // A title that has become whole CQEs is anybody's.
    if (!was_title || (wqe::is_compression_title(op_own) && !expand(cqe, op_own))) {
      TakenCqe entry;
      completes = take(cqe, op_own, entry);
      if (completes) {
        fill(entry, completion);
      }
      __atomic_store_n(&consumer_index_, index + 1, __ATOMIC_RELEASE);
      publish_at_least(index + 1);
    }
  }
  is_taken_alone_.store(false, std::memory_order_release);
  return completes;
}

// The device's word moves to `index` unless another poller has brought it further.
void Cq::publish_at_least(std::uint32_t index) {
  constexpr std::uint32_t kMask = 0xffffff, kHalf = 0x800000;
  auto* const word = reinterpret_cast<std::uint32_t*>(&record_->words[doorbell::CqRecord<>::kConsumerWord]);
  const std::uint32_t wanted = wqe::internal::big_endian(index & kMask);
  std::uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  doorbell::NativeIo::to_device();
  while (((index - wqe::internal::big_endian(seen)) & kMask) - 1 < kHalf &&
         !__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

std::size_t Cq::poll_beside_others(std::span<Completion> completions) {
  for (;;) {
    const std::uint32_t first = __atomic_load_n(&consumer_index_, __ATOMIC_ACQUIRE);
    Batch batch;
    look_ahead(first, completions, batch);
    if (batch.count != 0) {
      std::uint32_t seen = first;
      if (!__atomic_compare_exchange_n(&consumer_index_, &seen, first + batch.count, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED)) {
        continue;  // somebody else has got completions
      }
      for (const Batch::Run& run : std::span(batch.runs).first(batch.run_count)) {
        if (run.send != nullptr) {
          run.send->complete_through(run.last);
        } else {
          run.receive->complete(run.receives);
        }
      }
      publish_at_least(first + batch.count);
      return batch.count;
    }
    bool taken = false;
    if (!batch.next_is_unusual || completions.empty() ||
        take_alone(first, batch.next_is_title, completions.front(), taken)) {
      return taken ? 1 : 0;
    }
    if (!taken) {
      return 0;
    }
  }
}

}  // namespace umlx5
