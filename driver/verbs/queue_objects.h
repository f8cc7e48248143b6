// The queue objects of the C ABI.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "doorbell/spinlock.h"
#include "driver/cq.h"
#include "driver/cq_poll.h"
#include "driver/qp.h"
#include "driver/send_builder.h"
#include "driver/srq.h"
#include "driver/types.h"
#include "driver/verbs/mkey_objects.h"
#include "driver/verbs/objects.h"
#include "driver/wq.h"

namespace umlx5::verbs {

// The verbs' scatter/gather entries are the native ones.
static_assert(sizeof(ibv_sge) == sizeof(Sge) && offsetof(ibv_sge, addr) == offsetof(Sge, address) &&
              offsetof(ibv_sge, length) == offsetof(Sge, length_bytes) &&
              offsetof(ibv_sge, lkey) == offsetof(Sge, lkey));
inline std::span<const Sge> sges_of(const ibv_sge* list, std::size_t count) {
  return {reinterpret_cast<const Sge*>(list), count};
}

// A queue's lock, or none where one thread alone uses the queue.
class QueueLock {
 public:
  // Before the queue is used.
  void set_needed(bool needed) { needed_ = needed; }
  bool needed() const { return needed_; }
  void lock() {
    if (needed_) {
      spinlock_.lock();
    }
  }
  void unlock() {
    if (needed_) {
      spinlock_.unlock();
    }
  }
  // What the native driver takes; null: nothing.
  doorbell::Spinlock* native() { return needed_ ? &spinlock_ : nullptr; }
  // For code that was chosen because the lock is needed.
  doorbell::Spinlock& spinlock() { return spinlock_; }

 private:
  doorbell::Spinlock spinlock_;
  bool needed_ = true;
};

// Programs that did not ask for the extended form see its beginning, an ibv_cq.
struct CqObject {
  ibv_cq_ex ex{};
  Cq* cq = nullptr;
  QueueLock lock;             // of polling; held from start_poll to end_poll
  TakenCqe current;           // of the extended form
  mlx5dv_clock_info clock{};  // as start_poll() found it, for CQs whose time stamps are to be translated
  void* arm_page = nullptr;
  Owned<Cq> native;

  ibv_cq* base() { return ibv_cq_ex_to_cq(&ex); }
};
inline CqObject& object_of(ibv_cq_ex* cq) { return containing(cq, &CqObject::ex); }
inline CqObject& object_of(ibv_cq* cq) { return object_of(reinterpret_cast<ibv_cq_ex*>(cq)); }

struct SrqObject {
  ibv_srq srq{};
  SharedReceiveQueue* queue = nullptr;
  QueueLock lock;  // of posting
  Owned<Srq> native;
};
inline SrqObject& object_of(ibv_srq* srq) { return containing(srq, &SrqObject::srq); }

struct WqObject {
  ibv_wq wq{};
  ReceiveQueue* queue = nullptr;
  QueueLock lock;  // of posting
  Owned<Wq> native;
};
inline WqObject& object_of(ibv_wq* wq) { return containing(wq, &WqObject::wq); }

struct RwqTableObject {
  ibv_rwq_ind_table table{};
  Owned<RwqTable> native;
};
inline RwqTableObject& object_of(ibv_rwq_ind_table* table) { return containing(table, &RwqTableObject::table); }

struct FlowObject {
  ibv_flow flow{};
  Owned<Flow> native;
};
inline FlowObject& object_of(ibv_flow* flow) { return containing(flow, &FlowObject::flow); }

struct QpObject;
using PostSend = int (*)(QpObject& qp, ibv_send_wr* requests, ibv_send_wr** bad);

struct QpObject {
  ibv_qp_ex ex{};
  PostSend post_send = nullptr;     // for the queue's transport, with or without a lock
  SendQueue* send = nullptr;        // null: has none
  ReceiveQueue* receive = nullptr;  // null: has none
  QueueLock send_lock;              // held from wr_start to wr_complete or wr_abort
  QueueLock receive_lock;
  SendBuilder builder{nullptr};
  std::unique_ptr<MkeySteps> mkey_steps;  // from the first request that changes a key on
  mlx5dv_qp_ex dv{};
  bool is_extended = false;  // the program asked for wr_*
  Owned<Qp> native;

  ibv_qp* base() { return &ex.qp_base; }
};
inline QpObject& object_of(ibv_qp_ex* qp) { return containing(qp, &QpObject::ex); }
inline QpObject& object_of(ibv_qp* qp) { return object_of(reinterpret_cast<ibv_qp_ex*>(qp)); }
inline QpObject& object_of(mlx5dv_qp_ex* qp) { return containing(qp, &QpObject::dv); }

// The public structure is at the object's own address.
static_assert(std::is_standard_layout_v<ibv_qp_ex> && offsetof(ibv_qp_ex, qp_base) == 0);

// post_send.cc: what posts to a queue of this transport.
PostSend post_send_of(SendTransport transport, bool locked);
int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad);
int bind_mw(ibv_qp* qp, ibv_mw* window, ibv_mw_bind* bind);
WindowBinding window_of(const ibv_mw& window, std::uint32_t rkey, const ibv_mw_bind_info& info);
// post_receive.cc
int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad);
// work_requests.cc: installs the wr_* functions that a queue of this transport has.
void set_builders(QpObject& qp, SendTransport transport);
// mkey_requests.cc: installs those that change memory keys.
void set_mkey_steps(mlx5dv_qp_ex& dv);
// How many were cancelled, or a negative errno.
int cancel_sends(QpObject& qp, std::uint64_t wr_id);
// poll.cc
int poll_cq(ibv_cq* cq, int count, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
// Where the wall-clock time of completions comes from: the device's own clock, or its cycles by Clocks::snapshot().
enum class WallClock { kNone, kDevice, kTranslated };
// poll_extended.cc: installs start_poll and its readers.
void set_readers(CqObject& cq, std::uint64_t wc_flags, WallClock wall_clock);

// The rest of both operation tables: cq_life.cc, srq_life.cc, qp_create.cc, qp_state.cc.
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);
// raw_receive.cc
ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr);
ibv_wq* mlx5_create_wq(ibv_context* context, ibv_wq_init_attr* attr, mlx5dv_wq_init_attr* mlx5_attr);
int modify_wq(ibv_wq* wq, ibv_wq_attr* attr);
int destroy_wq(ibv_wq* wq);
ibv_rwq_ind_table* create_rwq_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr);
int destroy_rwq_table(ibv_rwq_ind_table* table);
ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);

}  // namespace umlx5::verbs
