// ibv_post_send() and ibv_bind_mw().
#include <cerrno>

#include "driver/ah.h"
#include "driver/send_post.h"
#include "driver/verbs/queue_objects.h"
#include "driver/verbs/report.h"

namespace umlx5::verbs {
namespace {

static_assert(static_cast<int>(SendOpcode::kRdmaWrite) == IBV_WR_RDMA_WRITE);
static_assert(static_cast<int>(SendOpcode::kRdmaWriteWithImm) == IBV_WR_RDMA_WRITE_WITH_IMM);
static_assert(static_cast<int>(SendOpcode::kSend) == IBV_WR_SEND);
static_assert(static_cast<int>(SendOpcode::kSendWithImm) == IBV_WR_SEND_WITH_IMM);
static_assert(static_cast<int>(SendOpcode::kRdmaRead) == IBV_WR_RDMA_READ);
static_assert(static_cast<int>(SendOpcode::kCompareSwap) == IBV_WR_ATOMIC_CMP_AND_SWP);
static_assert(static_cast<int>(SendOpcode::kFetchAdd) == IBV_WR_ATOMIC_FETCH_AND_ADD);
static_assert(static_cast<int>(SendOpcode::kLocalInvalidate) == IBV_WR_LOCAL_INV);
static_assert(static_cast<int>(SendOpcode::kBindMemoryWindow) == IBV_WR_BIND_MW);
static_assert(static_cast<int>(SendOpcode::kSendWithInvalidate) == IBV_WR_SEND_WITH_INV);
static_assert(static_cast<int>(SendFlag::kFence) == IBV_SEND_FENCE);
static_assert(static_cast<int>(SendFlag::kSignaled) == IBV_SEND_SIGNALED);
static_assert(static_cast<int>(SendFlag::kSolicited) == IBV_SEND_SOLICITED);
static_assert(static_cast<int>(SendFlag::kInline) == IBV_SEND_INLINE);
static_assert(static_cast<int>(SendFlag::kIpChecksum) == IBV_SEND_IP_CSUM);
static_assert(static_cast<int>(SendOpcode::kTso) == IBV_WR_TSO);

// An ibv_send_wr as SendQueue reads requests.
class VerbsRequest {
 public:
  explicit VerbsRequest(const ibv_send_wr& wr) : wr_(&wr) {}
  SendOpcode opcode() const { return static_cast<SendOpcode>(wr_->opcode); }
  std::uint64_t wr_id() const { return wr_->wr_id; }
  SendFlags flags() const { return SendFlags::from_bits(wr_->send_flags); }
  std::span<const Sge> sges() const { return sges_of(wr_->sg_list, static_cast<unsigned>(wr_->num_sge)); }
  std::uint32_t immediate_big_endian() const { return wr_->imm_data; }
  std::uint32_t invalidate_rkey() const { return wr_->invalidate_rkey; }
  std::uint64_t remote_address() const { return wr_->wr.rdma.remote_addr; }
  template <bool kAtomic>
  std::uint32_t rkey() const {
    static_assert(offsetof(ibv_send_wr, wr.rdma.remote_addr) == offsetof(ibv_send_wr, wr.atomic.remote_addr));
    return kAtomic ? wr_->wr.atomic.rkey : wr_->wr.rdma.rkey;
  }
  std::uint64_t compare_add() const { return wr_->wr.atomic.compare_add; }
  std::uint64_t swap() const { return wr_->wr.atomic.swap; }
  const WireAddressVector* destination() const {
    ibv_ah* const ah = wr_->wr.ud.ah;
    return ah == nullptr ? nullptr : &object_of(ah).native->address_vector();
  }
  std::uint32_t remote_qpn() const { return wr_->wr.ud.remote_qpn; }
  std::uint32_t remote_qkey() const { return wr_->wr.ud.remote_qkey; }
  std::uint32_t remote_srqn() const { return wr_->qp_type.xrc.remote_srqn; }
  FrameRequest frame() const {
    FrameRequest frame{.wr_id = wr_id(), .flags = flags(), .sges = sges()};
    if (wr_->opcode == IBV_WR_TSO) {
      frame.is_tso = true;
      frame.tso_header = {static_cast<const std::byte*>(wr_->tso.hdr), wr_->tso.hdr_sz};
      frame.tso_piece_bytes = wr_->tso.mss;
    }
    return frame;
  }
  WindowBinding window() const { return window_of(*wr_->bind_mw.mw, wr_->bind_mw.rkey, wr_->bind_mw.bind_info); }

 private:
  const ibv_send_wr* wr_;
};

// As the verbs' manual and the stock driver have them: what exceeds the queue's capacities is ENOMEM here.
[[gnu::cold]] int errno_for(Refusal refusal) {
  switch (refusal) {
    case Refusal::kFull:
    case Refusal::kState:
    case Refusal::kSges:
    case Refusal::kInline:
      return ENOMEM;
    case Refusal::kNoAtomics:
    case Refusal::kWindow:
      return EOPNOTSUPP;
    default:
      return EINVAL;
  }
}

struct RequestList {
  ibv_send_wr* at;
  bool done() const { return at == nullptr; }
  VerbsRequest view() const { return VerbsRequest(*at); }
  void advance() { at = at->next; }
};

template <SendTransport kTransport>
[[gnu::noinline]] int post_list(SendQueue& queue, ibv_send_wr* requests, ibv_send_wr** bad) {
  RequestList list{requests};
  const Refusal refusal = queue.post_from<kTransport>(list);
  if (refusal != Refusal::kNone) [[unlikely]] {
    *bad = list.at;
    return errno_for(refusal);
  }
  return 0;
}

template <SendTransport kTransport>
[[gnu::always_inline]] inline int post(SendQueue& queue, ibv_send_wr* requests, ibv_send_wr** bad) {
  const bool alone = requests != nullptr && requests->next == nullptr;
  if (alone && queue.post_short<kTransport>(VerbsRequest(*requests))) [[likely]] {
    return 0;
  }
  return post_list<kTransport>(queue, requests, bad);
}

template <SendTransport kTransport, bool kLocked>
int post_as(QpObject& qp, ibv_send_wr* requests, ibv_send_wr** bad) {
  if constexpr (!kLocked) {
    return post<kTransport>(*qp.send, requests, bad);
  } else {
    qp.send_lock.spinlock().lock();
    const int result = post<kTransport>(*qp.send, requests, bad);
    qp.send_lock.spinlock().unlock();
    return result;
  }
}

template <SendTransport kTransport>
PostSend post_of(bool locked) {
  return locked ? post_as<kTransport, true> : post_as<kTransport, false>;
}

// An ibv_send_wr has no words for a target of DC: requests to one are built in steps only.
[[gnu::cold]] int refuse_dc(QpObject&, ibv_send_wr* requests, ibv_send_wr** bad) {
  *bad = requests;
  return report({EOPNOTSUPP, "ibv_post_send on a DCI: use ibv_wr_start() and mlx5dv_wr_set_dc_addr()"});
}

}  // namespace

WindowBinding window_of(const ibv_mw& window, std::uint32_t rkey, const ibv_mw_bind_info& info) {
  return {.type_2 = window.type == IBV_MW_TYPE_2,
          .old_rkey = window.rkey,
          .new_rkey = rkey,
          .lkey = info.mr == nullptr ? 0 : info.mr->lkey,
          .address = info.addr,
          .length_bytes = info.length,
          .access = AccessFlags::from_bits(info.mw_access_flags)};
}

PostSend post_send_of(SendTransport transport, bool locked) {
  switch (transport) {
    case SendTransport::kXrc:
      return post_of<SendTransport::kXrc>(locked);
    case SendTransport::kDatagram:
      return post_of<SendTransport::kDatagram>(locked);
    case SendTransport::kDc:
      return refuse_dc;
    case SendTransport::kRaw:
      return post_of<SendTransport::kRaw>(locked);
    case SendTransport::kConnected:
      break;
  }
  return post_of<SendTransport::kConnected>(locked);
}

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
  QpObject& object = object_of(qp);
  return object.post_send(object, requests, bad);
}

// Type 1 windows only: the inline function in front of this has seen to that.
int bind_mw(ibv_qp* qp, ibv_mw* window, ibv_mw_bind* bind) {
  const ibv_mw_bind_info& info = bind->bind_info;
  if ((info.mr == nullptr && (info.addr != 0 || info.length != 0)) ||
      (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0) {
    return errno = EINVAL;
  }
  if (info.mr != nullptr && info.mr->pd != window->pd) {
    return errno = EPERM;
  }
  ibv_send_wr request{};
  request.wr_id = bind->wr_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = bind->send_flags;
  request.bind_mw.mw = window;
  request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  request.bind_mw.bind_info = info;
  ibv_send_wr* bad = nullptr;
  if (const int error = post_send(qp, &request, &bad); error != 0) {
    return errno = error;
  }
  window->rkey = request.bind_mw.rkey;
  return 0;
}

}  // namespace umlx5::verbs
