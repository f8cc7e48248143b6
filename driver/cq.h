// Completion queue and completion channel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "doorbell/record.h"
#include "doorbell/spinlock.h"
#include "doorbell/uar.h"
#include "driver/allocator.h"
#include "driver/completion_ring.h"
#include "driver/queue_memory.h"
#include "driver/queue_owner.h"
#include "driver/resource.h"
#include "driver/work_request.h"
#include "uapi/cq.h"
#include "uapi/error.h"
#include "uapi/file_descriptor.h"
#include "wqe/mini_cqe.h"

namespace umlx5 {

class Context;
class Cq;
class Srq;
class Wq;
class UserIndexTable;
struct TakenCqe;

// A file descriptor that tells when an armed CQ has got a completion. Thread-safe.
class CompletionChannel : public ResourceHook {
 public:
  // For poll() and epoll; stays the channel's.
  int fd() const { return fd_.get(); }
  // The CQ whose event came; none when `timeout` passes without one. The event is acknowledged by this call.
  Expected<std::optional<Cq*>> wait(std::chrono::milliseconds timeout);

  // EBUSY while a CQ reports to it.
  static Expected<void> destroy(CompletionChannel& channel);
  static void abandon(CompletionChannel& channel, const Error& why);

 private:
  friend class Context;
  Context* context_ = nullptr;
  uapi::FileDescriptor fd_;
};

struct CqOptions {
  std::uint32_t entries = 0;             // at least this many; rounded up to a power of two less one
  std::uint32_t cqe_bytes = 64;          // 64 or 128
  CompletionChannel* channel = nullptr;  // none: polling only
  std::uint32_t completion_vector = 0;
  bool ignore_overrun = false;        // the device does not look whether there is room
  bool timestamps = false;            // tells the kernel that they are wanted; CQEs of these devices always have them
  bool real_time_timestamps = false;  // nanoseconds of the device's real-time clock instead of its cycles
  bool pad_large_cqes = false;        // 128-byte CQEs: written whole
  // mlx5dv_cqe_comp_res_format: the device may write completions that are alike with one title (wqe/mini_cqe.h). They
  // have that one's timestamp. 0: it may not.
  std::uint8_t compression = 0;
  Allocator* allocator = nullptr;  // of its ring and doorbell record; null: the driver
  bool many_pollers = false;       // any number of threads poll() at once, without waiting for each other
  // Held while the queue is changed by others than poll() and resize(): when a QP that completes here is reset or
  // destroyed. Null: the program sees to it that nobody polls then. Whose lock it is polls under it.
  doorbell::Spinlock* lock = nullptr;
  void* user = nullptr;
  std::uint64_t event_handle = 0;  // what the kernel's events name it by; 0: the driver chooses
};

enum class Arm : std::uint8_t { kNext, kSolicited };

// One thread at a time polls, arms or resizes, and none while a QP that completes here is reset or destroyed (its
// completions are taken out then); different CQs are independent.
class Cq : public ResourceHook {
 public:
  // Takes at most completions.size() completions and returns how many. Never enters the kernel, never allocates.
  std::size_t poll(std::span<Completion> completions);

  // The steps of poll(), for who gives completions another form (cq_poll.h): takes the next completion, false if there
  // is none; and tells the device that the entries taken so far are free.
  bool take_next(TakenCqe& taken);
  // Takes up to `most` completions; give(taken) is called with each.
  template <typename Give>
  std::size_t take_all(std::size_t most, Give give);
  void publish_consumer_index() { doorbell::CqRecord<>(record_).publish_consumer(consumer_index_); }
  // From now on the program takes the CQEs itself, from the ring: nothing here changes ring or index any more.
  void leave_to_program() { is_left_to_program_ = true; }

  // Asks for one event on the channel for the next completion (kSolicited: the next solicited one or error).
  // Poll once more after arming, since a completion that came before is not announced.
  void arm(Arm what = Arm::kNext);

  // Changes how many completions it holds; those that wait are kept. Errors: EINVAL for a size that is impossible or
  // too small for the completions that wait, and what the kernel says; the CQ is then as it was.
  Expected<void> resize(std::uint32_t entries);

  // Interrupt moderation: an event after `count` completions or `period_us` microseconds, whichever comes first.
  Expected<void> moderate(std::uint16_t count, std::uint16_t period_us);

  std::uint32_t entries() const { return ring_.entries() - 1; }  // completions it holds
  std::uint32_t cqn() const { return cqn_; }
  void* user() const { return user_; }
  std::uint64_t event_handle() const { return event_handle_; }
  Context& context() const { return *context_; }
  CompletionChannel* channel() const { return channel_; }
  std::uint32_t consumer_index() const {  // CQEs ever taken, free-running
    return __atomic_load_n(&consumer_index_, __ATOMIC_RELAXED);
  }
  bool has_many_pollers() const { return has_many_pollers_; }
  uapi::CqHandle handle() const { return handle_; }
  const CompletionRing& ring() const { return ring_; }
  doorbell::RecordMemory* record() const { return record_; }
  // An event of it was taken from its channel, by whoever reads the descriptor.
  void count_event() { arm_sequence_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t arm_sequence() const { return arm_sequence_.load(std::memory_order_relaxed); }

  // EBUSY while a QP or an SRQ completes here.
  static Expected<void> destroy(Cq& cq, EventsReported* reported = nullptr);
  static void abandon(Cq& cq, const Error& why);

 private:
  friend class Context;
  friend class CompletionChannel;
  friend class Qp;
  friend class Srq;
  friend class Wq;

  // Polling: cq_poll.h, cq_poll.cc.
  static constexpr std::uint32_t kUserIndexOffset = 32, kQpnOffset = 56;
  bool continues_run(const std::byte* cqe, std::uint8_t op_own, std::uint32_t number_word) const;
  template <typename Give, typename Read>
  std::uint32_t take_run(TakenCqe& taken, std::size_t most, Give& give, Read read);
  bool take(const std::byte* cqe, std::uint8_t op_own, TakenCqe& taken);
  bool take_unusual(TakenCqe& taken);
  bool leave_out(const TakenCqe& taken);
  void tell_mkey(const TakenCqe& taken);
  CompletionStatus unpack(const TakenCqe& taken);
  CompletionStatus scatter(const TakenCqe& taken);
  bool expand(std::byte* cqe, std::uint8_t op_own) const;
  std::uint32_t written_index() const;
  static void fill(const TakenCqe& taken, Completion& completion);
  // Many pollers: cq_many_pollers.cc.
  struct Batch;
  std::size_t poll_beside_others(std::span<Completion> completions);
  void look_ahead(std::uint32_t first, std::span<Completion> completions, Batch& batch) const;
  bool take_alone(std::uint32_t index, bool was_title, Completion& completion, bool& taken);
  void publish_at_least(std::uint32_t index);
  QueueOwner owner_of_number(std::uint32_t number) const;
  static void fill_more(const std::byte* cqe, std::uint8_t op_own, const QueueOwner& owner, Completion& completion);
  const QueueOwner* owner_of(const std::byte* cqe);
  const QueueOwner* find_owner(std::uint32_t number);
  std::uint32_t number_of(const std::byte* cqe) const;  // user index or QPN
  // Takes every completion of `qp` out of the queue; what they took from an SRQ goes back to it.
  void forget(const Qp& qp);
  void forget(const Srq& srq);
  void forget(const Wq& wq);
  void forget_owner();
  template <typename IsGone>
  void forget_if(IsGone is_gone);
  std::optional<std::uint32_t> find_resize() const;
  void take_over(CompletionRing ring, std::uint32_t resize_index);

  // What polling reads and writes.
  CompletionRing ring_;
  std::uint32_t consumer_index_ = 0;
  std::uint32_t cached_number_ = ~0u;  // of whom completed last
  QueueOwner cached_owner_;
  const UserIndexTable* queues_ = nullptr;
  doorbell::RecordMemory* record_ = nullptr;
  std::uint32_t number_offset_ = kUserIndexOffset;  // of a CQE's word that names its queue
  bool is_left_to_program_ = false;
  std::optional<wqe::MiniCqeFormat> mini_format_;  // none: the device compresses nothing
  std::uint32_t null_lkey_ = 0;
  bool has_many_pollers_ = false;
  std::atomic<bool> is_taken_alone_{false};  // one of many pollers has the next entry for itself

  // What arming needs. The sequence number moves with each event that is taken from the channel, by whatever thread.
  std::atomic<std::uint32_t> arm_sequence_{0};
  std::optional<doorbell::ArmRegister<>> arm_register_;
  std::uint32_t cqn_ = 0;

  Context* context_ = nullptr;
  CompletionChannel* channel_ = nullptr;
  Allocator* allocator_ = nullptr;
  doorbell::Spinlock* lock_ = nullptr;
  void* user_ = nullptr;
  std::uint64_t event_handle_ = 0;
  uapi::CqHandle handle_{};
  QueueMemory memory_;
  DoorbellRecord record_memory_;
};

}  // namespace umlx5
