// Queue pair: its life, and posting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "doorbell/record_pool.h"
#include "driver/queue_memory.h"
#include "driver/receive_queue.h"
#include "driver/resource.h"
#include "driver/send_queue.h"
#include "driver/types.h"
#include "driver/work_request.h"
#include "uapi/error.h"
#include "uapi/qp.h"

namespace umlx5 {

class Context;
class Cq;
class Pd;

struct QpCapacity {
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  std::uint32_t max_send_sge = 0, max_recv_sge = 0;
  std::uint32_t max_inline_bytes = 0;
};

struct QpOptions {
  QpType type = QpType::kRc;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  QpCapacity capacity{};    // asked; what was given is in Qp::capacity()
  bool signal_all = false;  // every send request is signalled
  // The operations that will be posted: fewer operations give a smaller WQE. None: all that the type has.
  std::optional<std::uint64_t> send_operations = std::nullopt;  // bits of SendOperation (qp_geometry.h)
  void* user = nullptr;
};

// How the other side is reached (RoCE v2).
struct RemoteAddress {
  Gid gid{};  // of the remote port
  std::uint8_t local_gid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t service_level = 0;
  std::uint8_t port = 1;
};

struct InitAttributes {
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  AccessFlags remote_access{};
};

struct ReadyToReceiveAttributes {
  RemoteAddress remote{};
  std::uint32_t remote_qpn = 0;
  std::uint32_t receive_psn = 0;  // 24 bits: the first PSN the other side sends
  Mtu path_mtu = Mtu::k1024;
  std::uint8_t max_target_reads_atomics = 16;
  std::uint8_t min_rnr_timer = 12;  // IBA code 0..31; 12: 0.64 ms
};

struct ReadyToSendAttributes {
  std::uint32_t send_psn = 0;
  std::uint8_t timeout = 14;     // 4.096 us * 2^n; 0: none
  std::uint8_t retry_count = 7;  // 0..7
  std::uint8_t rnr_retry = 7;    // 0..7; 7: for ever
  std::uint8_t max_initiated_reads_atomics = 16;
};

// What a peer must know to connect; exchanged by the application over any way it has.
struct QpAddress {
  Gid gid{};
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
};

// The send side is for one thread at a time, the receive side for one thread at a time; both may run at once.
class Qp : public ResourceHook {
 public:
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;
  ~Qp();  // of the driver: programs hold an Owned<Qp>

  Expected<void> to_init(const InitAttributes& attributes);
  Expected<void> to_rtr(const ReadyToReceiveAttributes& attributes);
  Expected<void> to_rts(const ReadyToSendAttributes& attributes);
  // RTS -> SQD; to_rts() brings it back. Linux' mlx5_ib refuses it (EINVAL): its queues drain on their own account
  // only.
  Expected<void> to_sqd();
  Expected<void> to_error();
  // Forgets everything posted; completions of this QP vanish from its CQs, which nobody may poll meanwhile.
  Expected<void> to_reset();
  // INIT, RTR and RTS in one call with this QP's own first send PSN `local_psn`.
  Expected<void> connect(const QpAddress& peer, std::uint32_t local_psn, const InitAttributes& init,
                         const ReadyToReceiveAttributes& rtr = {}, const ReadyToSendAttributes& rts = {});

  // Never enter the kernel, lock or allocate.
  // Requests are taken by post_send() in RTS, SQD, SQE and ERR, by post_recv() in all states but RESET; in ERR they
  // come back flushed.
  PostResult post_send(std::span<const SendWr> requests) { return send_.post(requests); }
  PostResult post_recv(std::span<const RecvWr> requests) { return recv_.post(requests); }
  // Why `request` is refused now, in words; empty if it would be taken.
  std::string explain_refusal(const SendWr& request) const;
  std::string explain_refusal(const RecvWr& request) const;

  Expected<QpState> query_state();                                          // asks the kernel
  QpState state() const { return state_.load(std::memory_order_relaxed); }  // as last set by this object
  const QpCapacity& capacity() const { return capacity_; }
  std::uint32_t qpn() const { return qpn_; }
  QpType type() const { return type_; }
  void* user() const { return user_; }
  Pd& pd() const { return *pd_; }
  Cq& send_cq() const { return *send_cq_; }
  Cq& recv_cq() const { return *recv_cq_; }
  // What the driver works with, for tools that show it.
  const SendQueue& send_queue() const { return send_; }
  const ReceiveQueue& receive_queue() const { return recv_; }

  // Takes its completions out of its CQs, which nobody may poll meanwhile.
  static Expected<void> destroy(Qp& qp);
  static void abandon(Qp& qp, const Error& why);

 private:
  friend class Context;
  friend class Pd;
  friend class Cq;

  Qp(Context& context, Pd& pd) : context_(&context), pd_(&pd) {}
  static Expected<Qp*> create(Pd& pd, const QpOptions& options);
  Expected<void> allocate(const QpOptions& options);
  Expected<void> create_in_kernel(const QpOptions& options);
  Expected<void> change(QpState to, const uapi::QpAttributes& attributes, std::uint32_t mask);
  void set_state(QpState state);
  void forget_completions();
  std::string name() const;  // "QP 0x12"

  SendQueue send_;
  ReceiveQueue recv_;

  std::uint32_t qpn_ = 0;
  std::uint32_t user_index_ = kNoUserIndex;  // or the QPN, where CQEs carry that
  std::atomic<QpState> state_{QpState::kReset};
  QpType type_ = QpType::kRc;
  QpCapacity capacity_;
  Context* context_;
  Pd* pd_;
  Cq* send_cq_ = nullptr;
  Cq* recv_cq_ = nullptr;
  void* user_ = nullptr;
  uapi::QpHandle handle_{};
  bool in_kernel_ = false;
  QueueMemory memory_;
  doorbell::PooledRecord record_;

  static constexpr std::uint32_t kNoUserIndex = 0xffffffff;
};

}  // namespace umlx5
