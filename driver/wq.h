// Receive work queues, which RSS QPs share frames out to by hash, and flows, which bring frames to QPs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/allocator.h"
#include "driver/queue_memory.h"
#include "driver/receive_queue.h"
#include "driver/resource.h"
#include "driver/striding_receives.h"
#include "driver/work_request.h"
#include "uapi/error.h"
#include "uapi/handles.h"
#include "uapi/wq.h"

namespace umlx5 {

class Context;
class Cq;
class Pd;
class Qp;

// A receive WQE takes frames one behind the other, each from the next stride on: mlx5dv_striding_rq_init_attr. What the
// device can do is in the kernel's striding_rq_caps.
struct StridingOptions {
  std::uint32_t log_stride_bytes = 6;
  std::uint32_t log_strides = 9;  // of a WQE
  bool two_byte_shift = false;    // a frame begins two bytes into its first stride
};

struct WqOptions {
  Cq* cq = nullptr;                       // where its receives complete
  std::uint32_t max_wr = 0, max_sge = 1;  // asked; what was given is in Wq::max_wr() and max_sge()
  bool strip_vlan = false;                // a frame's outermost tag goes to the completion
  std::optional<StridingOptions> striding = std::nullopt;
  Allocator* allocator = nullptr;  // of its buffer and doorbell record; null: the driver
  void* user = nullptr;
  std::uint64_t event_handle = 0;  // as QpOptions'
};

// Values are the verbs' (ibv_wq_state).
enum class WqState : std::uint8_t { kReset = 0, kReady = 1, kError = 2 };

// As Qp's receive side: one thread at a time posts, one at a time completes.
class Wq : public ResourceHook {
 public:
  ~Wq();

  // Taken in every state but RESET.
  PostResult post_recv(std::span<const RecvWr> requests) { return queue_.post(requests); }

  // A change to RESET forgets what was posted; nobody may poll its CQ meanwhile.
  Expected<void> modify(const uapi::WqChange& change);
  Expected<void> to_ready() { return modify({.mask = 1, .state = static_cast<std::uint32_t>(WqState::kReady)}); }

  WqState state() const { return state_; }
  std::uint32_t wqn() const { return wqn_; }
  std::uint32_t max_wr() const { return queue_.config().max_requests; }
  std::uint32_t max_sge() const { return queue_.config().max_sge; }
  uapi::WqHandle handle() const { return handle_; }
  // What the driver works with. Null if the queue does not stride.
  ReceiveQueue& queue() { return queue_; }
  StridingReceives* striding() { return striding_ ? &*striding_ : nullptr; }
  const StridingReceives* striding() const { return striding_ ? &*striding_ : nullptr; }
  void* user() const { return user_; }
  std::uint64_t event_handle() const { return event_handle_; }
  Context& context() const { return *context_; }
  Pd& pd() const { return *pd_; }
  Cq& cq() const { return *cq_; }

  // EBUSY while a table names it. Its completions are taken out of its CQ, which nobody may poll meanwhile.
  static Expected<void> destroy(Wq& wq, EventsReported* reported = nullptr);
  static void abandon(Wq& wq, const Error& why);

 private:
  friend class Pd;
  friend class Context;
  friend class Cq;
  Wq(Context& context, Pd& pd) : context_(&context), pd_(&pd) {}
  static Expected<Wq*> create(Pd& pd, const WqOptions& options);
  Expected<void> allocate(const WqOptions& options);
  Expected<void> create_in_kernel(const WqOptions& options);
  std::string name() const;  // "WQ 0x12"

  ReceiveQueue queue_;
  std::optional<StridingReceives> striding_;
  Context* context_;
  Pd* pd_;
  Cq* cq_ = nullptr;
  WqState state_ = WqState::kReset;
  std::uint32_t wqn_ = 0;
  std::uint32_t user_index_ = kNoUserIndex;
  void* user_ = nullptr;
  std::uint64_t event_handle_ = 0;
  uapi::WqHandle handle_{};
  bool in_kernel_ = false;
  QueueMemory memory_;
  DoorbellRecord record_;

  static constexpr std::uint32_t kNoUserIndex = 0xffffffff;
};

// 2^n receive work queues of one context, some perhaps more than once; QpOptions::rss names it.
class RwqTable : public ResourceHook {
 public:
  uapi::RwqIndTableHandle handle() const { return handle_; }
  std::uint32_t number() const { return number_; }
  std::span<Wq* const> queues() const { return queues_; }
  Context& context() const { return *context_; }

  // The kernel's EBUSY while a QP uses it.
  static Expected<void> destroy(RwqTable& table);
  static void abandon(RwqTable& table, const Error& why);

 private:
  friend class Context;
  Context* context_ = nullptr;
  uapi::RwqIndTableHandle handle_{};
  std::uint32_t number_ = 0;
  std::vector<Wq*> queues_;
};

// A rule that brings frames to a RAW_PACKET QP, RSS ones included.
class Flow : public ResourceHook {
 public:
  uapi::FlowHandle handle() const { return handle_; }
  Context& context() const { return *context_; }

  static Expected<void> destroy(Flow& flow);
  static void abandon(Flow& flow, const Error& why);

 private:
  friend class Qp;
  friend class Context;
  Context* context_ = nullptr;
  uapi::FlowHandle handle_{};
};

}  // namespace umlx5
