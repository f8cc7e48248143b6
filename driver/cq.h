// Completion queue and completion channel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "doorbell/record.h"
#include "doorbell/record_pool.h"
#include "doorbell/uar.h"
#include "driver/completion_ring.h"
#include "driver/queue_memory.h"
#include "driver/queue_owner.h"
#include "driver/resource.h"
#include "driver/work_request.h"
#include "uapi/cq.h"
#include "uapi/error.h"
#include "uapi/file_descriptor.h"

namespace umlx5 {

class Context;
class Cq;
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
  void* user = nullptr;
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
  void publish_consumer_index() { doorbell::CqRecord<>(record_).publish_consumer(consumer_index_); }

  // Asks for one event on the channel for the next completion (kSolicited: the next solicited one or error).
  // Poll once more after arming, since a completion that came before is not announced.
  void arm(Arm what = Arm::kNext);

  // Changes how many completions it holds; those that wait are kept. Errors: EINVAL for a size that is impossible or
  // too small for the completions that wait, and what the kernel says; the CQ is then as it was.
  Expected<void> resize(std::uint32_t entries);

  std::uint32_t entries() const { return ring_.entries() - 1; }  // completions it holds
  std::uint32_t cqn() const { return cqn_; }
  void* user() const { return user_; }
  Context& context() const { return *context_; }
  CompletionChannel* channel() const { return channel_; }
  std::uint32_t consumer_index() const { return consumer_index_; }  // CQEs ever taken, free-running

  // EBUSY while a QP completes here.
  static Expected<void> destroy(Cq& cq);
  static void abandon(Cq& cq, const Error& why);

 private:
  friend class Context;
  friend class CompletionChannel;
  friend class Qp;

  // Polling: cq_poll.h, cq_poll.cc.
  bool take(const std::byte* cqe, std::uint8_t op_own, TakenCqe& taken);
  bool take_unusual(TakenCqe& taken);
  bool leave_out(const TakenCqe& taken);
  CompletionStatus scatter(const TakenCqe& taken);
  static void fill(const TakenCqe& taken, Completion& completion);
  const QueueOwner* owner_of(const std::byte* cqe);
  const QueueOwner* find_owner(std::uint32_t number);
  std::uint32_t number_of(const std::byte* cqe) const;  // user index or QPN
  // Takes every completion of `qp` out of the queue.
  void forget(const Qp& qp);
  std::optional<std::uint32_t> find_resize() const;
  void take_over(CompletionRing ring, std::uint32_t resize_index);

  // What polling reads and writes.
  CompletionRing ring_;
  std::uint32_t consumer_index_ = 0;
  std::uint32_t cached_number_ = ~0u;  // of whom completed last
  QueueOwner cached_owner_;
  const UserIndexTable* queue_pairs_ = nullptr;
  doorbell::RecordMemory* record_ = nullptr;
  bool by_user_index_ = true;
  std::uint32_t null_lkey_ = 0;

  // What arming needs. The sequence number moves with each event that is taken from the channel, by whatever thread.
  std::atomic<std::uint32_t> arm_sequence_{0};
  std::optional<doorbell::ArmRegister<>> arm_register_;
  std::uint32_t cqn_ = 0;

  Context* context_ = nullptr;
  CompletionChannel* channel_ = nullptr;
  void* user_ = nullptr;
  uapi::CqHandle handle_{};
  QueueMemory memory_;
  doorbell::PooledRecord pooled_record_;
};

}  // namespace umlx5
