// Shared receive queue: receive requests that many queue pairs take from.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "driver/allocator.h"
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
  Allocator* allocator = nullptr;         // of its buffer and doorbell record; null: the driver
  void* user = nullptr;
  std::uint64_t event_handle = 0;  // as QpOptions'
};

// One thread at a time posts; completions of its requests may be taken by others meanwhile.
class Srq : public ResourceHook {
 public:
  ~Srq();

  // As Qp::post_recv().
  PostResult post_recv(std::span<const RecvWr> requests) { return queue_.post(requests); }

  // Arms the limit event: one event when fewer than `limit` requests are left. Errors: the kernel's, EINVAL for a limit
  // that the queue cannot reach.
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
  std::uint64_t event_handle() const { return event_handle_; }
  Context& context() const { return *context_; }
  Pd& pd() const { return *pd_; }
  Xrcd* xrcd() const { return xrcd_; }
  Cq* cq() const { return cq_; }
  doorbell::RecordMemory* record() const { return record_.memory(); }

  // EBUSY while a QP takes from it. An XRC SRQ's completions are taken out of its CQ, which nobody may poll meanwhile.
  static Expected<void> destroy(Srq& srq, EventsReported* reported = nullptr);
  static void abandon(Srq& srq, const Error& why);

 private:
  friend class Pd;
  friend class Context;
  friend class Cq;
  friend class Qp;
  Srq(Context& context, Pd& pd) : context_(&context), pd_(&pd) {}
  static Expected<Srq*> create(Pd& pd, const SrqOptions& options);
  Expected<void> allocate(const SrqOptions& options);
  Expected<void> create_in_kernel(const SrqOptions& options);
  std::string name() const;  // "SRQ 0x12"

  SharedReceiveQueue queue_;
  Context* context_;
  Pd* pd_;
  SrqType type_ = SrqType::kBasic;
  std::uint32_t srqn_ = 0;
  std::uint32_t user_index_ = kNoUserIndex;  // XRC: or the SRQN, where CQEs carry that
  Xrcd* xrcd_ = nullptr;
  Cq* cq_ = nullptr;
  void* user_ = nullptr;
  std::uint64_t event_handle_ = 0;
  uapi::SrqHandle handle_{};
  bool in_kernel_ = false;
  std::uint32_t buffer_wqes_ = 0;  // what the kernel is told of: the ring, and room for requests that wait for pages
  QueueMemory memory_;
  DoorbellRecord record_;

  static constexpr std::uint32_t kNoUserIndex = 0xffffffff;
};

}  // namespace umlx5
