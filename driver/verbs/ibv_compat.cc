// IBVERBS_1.0: what programs of the year 2006 call. Their structures are smaller than today's and their objects stand
// in front of real ones, which they name in their last member. Layouts: <infiniband/verbs.h> of libibverbs 1.0.
#include <infiniband/verbs.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "driver/verbs/compat.h"
#include "driver/verbs/events.h"
#include "driver/verbs/objects.h"

using umlx5::verbs::About;
using umlx5::verbs::OldContext;
using umlx5::verbs::subject_of;

namespace {

struct OldDevice {
  void* unused[2];
  ibv_device* real;
  void* operations[2];
};

struct OldPd {
  OldContext* context;
  std::uint32_t handle;
  ibv_pd* real;
};

struct OldMr {
  OldContext* context;
  OldPd* pd;
  std::uint32_t handle, lkey, rkey;
  ibv_mr* real;
};

struct OldCq {
  OldContext* context;
  void* cq_context;
  std::uint32_t handle;
  int cqe;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  std::uint32_t comp_events_completed, async_events_completed;
  ibv_cq* real;
};

struct OldSrq {
  OldContext* context;
  void* srq_context;
  OldPd* pd;
  std::uint32_t handle;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  std::uint32_t events_completed;
  ibv_srq* real;
};

struct OldQpInitAttr {
  void* qp_context;
  OldCq* send_cq;
  OldCq* recv_cq;
  OldSrq* srq;
  ibv_qp_cap cap;
  ibv_qp_type qp_type;
  int sq_sig_all;
};

struct OldQp {
  OldContext* context;
  void* qp_context;
  OldPd* pd;
  OldCq* send_cq;
  OldCq* recv_cq;
  OldSrq* srq;
  std::uint32_t handle, qp_num;
  ibv_qp_state state;
  ibv_qp_type qp_type;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  std::uint32_t events_completed;
  ibv_qp* real;
};

struct OldAh {
  OldContext* context;
  OldPd* pd;
  std::uint32_t handle;
  ibv_ah* real;
};

struct OldSendWr {
  OldSendWr* next;
  std::uint64_t wr_id;
  ibv_sge* sg_list;
  int num_sge;
  ibv_wr_opcode opcode;
  int send_flags;
  std::uint32_t imm_data;
  union {
    struct {
      std::uint64_t remote_addr;
      std::uint32_t rkey;
    } rdma;
    struct {
      std::uint64_t remote_addr, compare_add, swap;
      std::uint32_t rkey;
    } atomic;
    struct {
      OldAh* ah;
      std::uint32_t remote_qpn, remote_qkey;
    } ud;
  } wr;
};

struct OldRecvWr {
  OldRecvWr* next;
  std::uint64_t wr_id;
  ibv_sge* sg_list;
  int num_sge;
};

// x86-64; other 64-bit machines align alike.
static_assert(sizeof(OldDevice) == 40 && sizeof(OldPd) == 24 && sizeof(OldMr) == 40 && sizeof(OldAh) == 32);
static_assert(offsetof(OldQp, qp_num) == 52 && offsetof(OldQpInitAttr, cap) == 32);
static_assert(offsetof(OldSendWr, wr) == 40 && sizeof(OldSendWr) == 72 && sizeof(OldRecvWr) == 32);
static_assert(sizeof(OldSendWr::wr) == offsetof(ibv_send_wr, qp_type) - offsetof(ibv_send_wr, wr));

// Requests of today with what `wr` asks, in a list.
ibv_send_wr to_new(const OldSendWr& old, bool datagram) {
  ibv_send_wr request{};
  request.wr_id = old.wr_id;
  request.sg_list = old.sg_list;
  request.num_sge = old.num_sge;
  request.opcode = old.opcode;
  request.send_flags = static_cast<unsigned>(old.send_flags);
  request.imm_data = old.imm_data;
  std::memcpy(&request.wr, &old.wr, sizeof old.wr);
  if (datagram) {
    request.wr.ud.ah = old.wr.ud.ah->real;
  }
  return request;
}

ibv_recv_wr to_new(const OldRecvWr& old, bool) {
  return {.wr_id = old.wr_id, .next = nullptr, .sg_list = old.sg_list, .num_sge = old.num_sge};
}

// Posts what the old list asks by `post`, and names the refused request in the old list.
template <typename New, typename Old, typename Post>
int post_list(Old* list, Old** bad, bool datagram, Post post) {
  std::vector<New> requests;
  for (const Old* old = list; old != nullptr; old = old->next) {
    requests.push_back(to_new(*old, datagram));
  }
  for (std::size_t i = 1; i < requests.size(); ++i) {
    requests[i - 1].next = &requests[i];
  }
  New* refused = nullptr;
  const int error = post(requests.empty() ? nullptr : requests.data(), &refused);
  if (error != 0 && refused != nullptr) {
    Old* old = list;
    for (auto skipped = refused - requests.data(); skipped > 0; --skipped) {
      old = old->next;
    }
    *bad = old;
  }
  return error;
}

int poll_cq(OldCq* cq, int count, ibv_wc* completions) { return ibv_poll_cq(cq->real, count, completions); }
int req_notify_cq(OldCq* cq, int solicited_only) { return ibv_req_notify_cq(cq->real, solicited_only); }

int post_send(OldQp* qp, OldSendWr* list, OldSendWr** bad) {
  return post_list<ibv_send_wr>(list, bad, qp->qp_type == IBV_QPT_UD,
                                [&](auto* first, auto** refused) { return ibv_post_send(qp->real, first, refused); });
}
int post_recv(OldQp* qp, OldRecvWr* list, OldRecvWr** bad) {
  return post_list<ibv_recv_wr>(list, bad, false,
                                [&](auto* first, auto** refused) { return ibv_post_recv(qp->real, first, refused); });
}
int post_srq_recv(OldSrq* srq, OldRecvWr* list, OldRecvWr** bad) {
  return post_list<ibv_recv_wr>(
      list, bad, false, [&](auto* first, auto** refused) { return ibv_post_srq_recv(srq->real, first, refused); });
}

// Slots of the old table that the old header's inline functions call.
enum Slot : std::size_t { kPollCq = 7, kReqNotifyCq = 8, kPostSrqRecv = 16, kPostSend = 21, kPostRecv = 22 };

template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

// A zeroed object that stands in front of `real`; null, as `real` is, when there is none.
template <typename Old, typename Real>
Old* in_front_of(Real* real, OldContext* context) {
  if (real == nullptr) {
    return nullptr;
  }
  auto* old = new Old{};
  old->context = context;
  old->real = real;
  return old;
}

// Ends an object and what stands in front of it.
template <typename Old, typename End>
int end(Old* old, End end_real) {
  const int error = end_real(old->real);
  if (error == 0) {
    delete old;
  }
  return error;
}

template <typename Old>
auto real_of(Old* old) {
  return old == nullptr ? nullptr : old->real;
}

// What stands in front of a real object is its context pointer.
template <typename Old>
Old* front_of(void* context) {
  return static_cast<Old*>(context);
}

}  // namespace

#define UMLX5_1_0(name) __attribute__((symver(#name "@IBVERBS_1.0")))

extern "C" {

// The array is preceded by the real list.
UMLX5_1_0(ibv_get_device_list)
OldDevice** old_get_device_list(int* num) {
  int count = 0;
  ibv_device** real = ibv_get_device_list(&count);
  if (real == nullptr) {
    return nullptr;
  }
  auto** list = static_cast<OldDevice**>(std::calloc(static_cast<std::size_t>(count) + 2, sizeof(OldDevice*)));
  if (list == nullptr) {
    ibv_free_device_list(real);
    return nullptr;
  }
  list[0] = reinterpret_cast<OldDevice*>(real);
  for (int i = 0; i < count; ++i) {
    list[i + 1] = new OldDevice{.unused = {}, .real = real[i], .operations = {}};
  }
  if (num != nullptr) {
    *num = count;
  }
  return list + 1;
}

UMLX5_1_0(ibv_free_device_list)
void old_free_device_list(OldDevice** list) {
  for (OldDevice** device = list; *device != nullptr; ++device) {
    delete *device;
  }
  ibv_free_device_list(reinterpret_cast<ibv_device**>(list[-1]));
  std::free(list - 1);
}

UMLX5_1_0(ibv_get_device_name)
const char* old_get_device_name(OldDevice* device) { return ibv_get_device_name(device->real); }
UMLX5_1_0(ibv_get_device_guid)
__be64 old_get_device_guid(OldDevice* device) { return ibv_get_device_guid(device->real); }

UMLX5_1_0(ibv_open_device)
OldContext* old_open_device(OldDevice* device) {
  ibv_context* real = ibv_open_device(device->real);
  if (real == nullptr) {
    return nullptr;
  }
  auto* context = new OldContext{};
  context->device = device;
  context->cmd_fd = real->cmd_fd;
  context->async_fd = real->async_fd;
  context->num_comp_vectors = real->num_comp_vectors;
  context->operations[kPollCq] = slot(poll_cq);
  context->operations[kReqNotifyCq] = slot(req_notify_cq);
  context->operations[kPostSrqRecv] = slot(post_srq_recv);
  context->operations[kPostSend] = slot(post_send);
  context->operations[kPostRecv] = slot(post_recv);
  context->real = real;
  return context;
}
UMLX5_1_0(ibv_close_device)
int old_close_device(OldContext* context) { return end(context, ibv_close_device); }

UMLX5_1_0(ibv_query_device)
int old_query_device(OldContext* context, ibv_device_attr* attributes) {
  return ibv_query_device(context->real, attributes);
}
UMLX5_1_0(ibv_query_port)
int old_query_port(OldContext* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  return ibv_query_port(context->real, port, attributes);
}
UMLX5_1_0(ibv_query_gid)
int old_query_gid(OldContext* context, uint8_t port, int index, ibv_gid* gid) {
  return ibv_query_gid(context->real, port, index, gid);
}
UMLX5_1_0(ibv_query_pkey)
int old_query_pkey(OldContext* context, uint8_t port, int index, __be16* pkey) {
  return ibv_query_pkey(context->real, port, index, pkey);
}

UMLX5_1_0(ibv_alloc_pd)
OldPd* old_alloc_pd(OldContext* context) { return in_front_of<OldPd>(ibv_alloc_pd(context->real), context); }
UMLX5_1_0(ibv_dealloc_pd)
int old_dealloc_pd(OldPd* pd) { return end(pd, ibv_dealloc_pd); }

UMLX5_1_0(ibv_reg_mr)
OldMr* old_reg_mr(OldPd* pd, void* address, size_t bytes, int access) {
  auto* mr = in_front_of<OldMr>(ibv_reg_mr(pd->real, address, bytes, access), pd->context);
  if (mr != nullptr) {
    mr->pd = pd;
    mr->handle = mr->real->handle;
    mr->lkey = mr->real->lkey;
    mr->rkey = mr->real->rkey;
  }
  return mr;
}
UMLX5_1_0(ibv_dereg_mr)
int old_dereg_mr(OldMr* mr) { return end(mr, ibv_dereg_mr); }

UMLX5_1_0(ibv_create_cq)
OldCq* old_create_cq(OldContext* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
  auto* cq = in_front_of<OldCq>(ibv_create_cq(context->real, cqe, cq_context, channel, comp_vector), context);
  if (cq != nullptr) {
    cq->cq_context = cq_context;
    cq->cqe = cq->real->cqe;
    cq->real->cq_context = cq;
  }
  return cq;
}
UMLX5_1_0(ibv_resize_cq)
int old_resize_cq(OldCq* cq, int cqe) {
  const int error = ibv_resize_cq(cq->real, cqe);
  cq->cqe = cq->real->cqe;
  return error;
}
UMLX5_1_0(ibv_destroy_cq)
int old_destroy_cq(OldCq* cq) { return end(cq, ibv_destroy_cq); }

UMLX5_1_0(ibv_get_cq_event)
int old_get_cq_event(ibv_comp_channel* channel, OldCq** cq, void** cq_context) {
  ibv_cq* real = nullptr;
  void* front = nullptr;
  const int error = ibv_get_cq_event(channel, &real, &front);
  if (error == 0) {
    *cq = front_of<OldCq>(front);
    *cq_context = (*cq)->cq_context;
  }
  return error;
}
UMLX5_1_0(ibv_ack_cq_events)
void old_ack_cq_events(OldCq* cq, unsigned int events) { ibv_ack_cq_events(cq->real, events); }

UMLX5_1_0(ibv_create_srq)
OldSrq* old_create_srq(OldPd* pd, ibv_srq_init_attr* attributes) {
  auto* srq = in_front_of<OldSrq>(ibv_create_srq(pd->real, attributes), pd->context);
  if (srq != nullptr) {
    srq->srq_context = attributes->srq_context;
    srq->pd = pd;
    srq->real->srq_context = srq;
  }
  return srq;
}
UMLX5_1_0(ibv_modify_srq)
int old_modify_srq(OldSrq* srq, ibv_srq_attr* attributes, int mask) {
  return ibv_modify_srq(srq->real, attributes, mask);
}
UMLX5_1_0(ibv_query_srq)
int old_query_srq(OldSrq* srq, ibv_srq_attr* attributes) { return ibv_query_srq(srq->real, attributes); }
UMLX5_1_0(ibv_destroy_srq)
int old_destroy_srq(OldSrq* srq) { return end(srq, ibv_destroy_srq); }

UMLX5_1_0(ibv_create_qp)
OldQp* old_create_qp(OldPd* pd, OldQpInitAttr* attributes) {
  ibv_qp_init_attr now{};
  now.qp_context = attributes->qp_context;
  now.send_cq = real_of(attributes->send_cq);
  now.recv_cq = real_of(attributes->recv_cq);
  now.srq = real_of(attributes->srq);
  now.cap = attributes->cap;
  now.qp_type = attributes->qp_type;
  now.sq_sig_all = attributes->sq_sig_all;
  auto* qp = in_front_of<OldQp>(ibv_create_qp(pd->real, &now), pd->context);
  if (qp != nullptr) {
    qp->qp_context = attributes->qp_context;
    qp->pd = pd;
    qp->send_cq = attributes->send_cq;
    qp->recv_cq = attributes->recv_cq;
    qp->srq = attributes->srq;
    qp->qp_type = attributes->qp_type;
    qp->qp_num = qp->real->qp_num;
    qp->state = qp->real->state;
    qp->real->qp_context = qp;
    attributes->cap = now.cap;
  }
  return qp;
}
UMLX5_1_0(ibv_query_qp)
int old_query_qp(OldQp* qp, ibv_qp_attr* attributes, int mask, OldQpInitAttr* init) {
  ibv_qp_init_attr now{};
  const int error = ibv_query_qp(qp->real, attributes, mask, &now);
  if (error == 0) {
    qp->state = qp->real->state;
    *init = {.qp_context = qp->qp_context,
             .send_cq = qp->send_cq,
             .recv_cq = qp->recv_cq,
             .srq = qp->srq,
             .cap = now.cap,
             .qp_type = now.qp_type,
             .sq_sig_all = now.sq_sig_all};
  }
  return error;
}
UMLX5_1_0(ibv_modify_qp)
int old_modify_qp(OldQp* qp, ibv_qp_attr* attributes, int mask) {
  const int error = ibv_modify_qp(qp->real, attributes, mask);
  qp->state = qp->real->state;
  return error;
}
UMLX5_1_0(ibv_destroy_qp)
int old_destroy_qp(OldQp* qp) { return end(qp, ibv_destroy_qp); }

UMLX5_1_0(ibv_create_ah)
OldAh* old_create_ah(OldPd* pd, ibv_ah_attr* attributes) {
  auto* ah = in_front_of<OldAh>(ibv_create_ah(pd->real, attributes), pd->context);
  if (ah != nullptr) {
    ah->pd = pd;
  }
  return ah;
}
UMLX5_1_0(ibv_destroy_ah)
int old_destroy_ah(OldAh* ah) { return end(ah, ibv_destroy_ah); }

UMLX5_1_0(ibv_attach_mcast)
int old_attach_mcast(OldQp* qp, ibv_gid* gid, uint16_t lid) { return ibv_attach_mcast(qp->real, gid, lid); }
UMLX5_1_0(ibv_detach_mcast)
int old_detach_mcast(OldQp* qp, ibv_gid* gid, uint16_t lid) { return ibv_detach_mcast(qp->real, gid, lid); }

UMLX5_1_0(ibv_get_async_event)
int old_get_async_event(OldContext* context, ibv_async_event* event) {
  const int error = ibv_get_async_event(context->real, event);
  if (error != 0) {
    return error;
  }
  switch (subject_of(event->event_type)) {
    case About::kCq:
      event->element.cq = front_of<ibv_cq>(event->element.cq->cq_context);
      break;
    case About::kQp:
      event->element.qp = front_of<ibv_qp>(event->element.qp->qp_context);
      break;
    case About::kSrq:
      event->element.srq = front_of<ibv_srq>(event->element.srq->srq_context);
      break;
    case About::kOther:
      break;
  }
  return 0;
}
UMLX5_1_0(ibv_ack_async_event)
void old_ack_async_event(ibv_async_event* event) {
  ibv_async_event real = *event;
  switch (subject_of(event->event_type)) {
    case About::kCq:
      real.element.cq = front_of<OldCq>(event->element.cq)->real;
      break;
    case About::kQp:
      real.element.qp = front_of<OldQp>(event->element.qp)->real;
      break;
    case About::kSrq:
      real.element.srq = front_of<OldSrq>(event->element.srq)->real;
      break;
    case About::kOther:
      break;
  }
  ibv_ack_async_event(&real);
}

}  // extern "C"
