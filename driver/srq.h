// Shared receive queue: receive requests that many queue pairs take from.
#pragma once

#include <cstdint>
#include <span>

#include "doorbell/record_pool.h"
#include "driver/queue_memory.h"
#include "driver/resource.h"
#include "driver/shared_receive_queue.h"
#include "driver/work_request.h"
#include "uapi/error.h"
#include "uapi/srq.h"

namespace umlx5 {

class Context;
class Cq;
class Pd;
class Xrcd;

// Values are the verbs' (ibv_srq_type).
enum class SrqType : std::uint8_t { kBasic = 0, kXrc = 1 };

struct SrqOptions {
  SrqType type = SrqType::kBasic;
  std::uint32_t max_wr = 0, max_sge = 1;  // asked; what was given is in Srq::max_wr() and max_sge()
  std::uint32_t limit = 0;                // an event comes when fewer requests than this are left; 0: never
  Xrcd* xrcd = nullptr;                   // kXrc
  Cq* cq = nullptr;                       // kXrc: where its receives complete
  void* user = nullptr;
};

// One thread at a time posts; completions of its requests may be taken by others meanwhile.
class Srq : public ResourceHook {
 public:
  ~Srq();

  // As Qp::post_recv().
  PostResult post_recv(std::span<const RecvWr> requests) { return queue_.post(requests); }

  // Arms the limit event: one event when fewer than `limit` requests are left. Errors: EINVAL above max_wr().
  Expected<void> set_limit(std::uint32_t limit);
  Expected<uapi::SrqAttributes> query();  // asks the kernel

  SrqType type() const { return type_; }
  std::uint32_t srqn() const { return srqn_; }
  std::uint32_t max_wr() const { return queue_.config().max_requests; }
  std::uint32_t max_sge() const { return queue_.config().max_sge; }
  uapi::SrqHandle handle() const { return handle_; }
  SharedReceiveQueue& queue() { return queue_; }  // what the driver works with
  const SharedReceiveQueue& queue() const { return queue_; }
  void* user() const { return user_; }
  Pd& pd() const { return *pd_; }

  // EBUSY while a QP takes from it. Afterwards `events_reported` async events had been given out (destroyed objects
  // whose events are still to be acknowledged are the caller's care).
  static Expected<void> destroy(Srq& srq);
  static void abandon(Srq& srq, const Error& why);

 private:
  friend class Pd;
  friend class Context;
  friend class Cq;
  friend class Qp;
  Srq(Context& context, Pd& pd) : context_(&context), pd_(&pd) {}

  SharedReceiveQueue queue_;
  Context* context_;
  Pd* pd_;
  SrqType type_ = SrqType::kBasic;
  std::uint32_t srqn_ = 0;
  std::uint32_t user_index_ = ~0u;
  Xrcd* xrcd_ = nullptr;
  Cq* cq_ = nullptr;
  void* user_ = nullptr;
  uapi::SrqHandle handle_{};
  bool in_kernel_ = false;
  QueueMemory memory_;
  doorbell::PooledRecord record_;
};

}  // namespace umlx5
