// Queue pair: its life, and posting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "driver/allocator.h"
#include "driver/queue_memory.h"
#include "driver/receive_queue.h"
#include "driver/resource.h"
#include "driver/send_queue.h"
#include "driver/types.h"
#include "driver/work_request.h"
#include "uapi/error.h"
#include "uapi/qp.h"
#include "uapi/wq.h"

namespace umlx5 {

class Context;
class Cq;
class MemoryRegion;
class Mkey;
struct MkeyChange;
struct MkeyLimits;
struct MkeyWqes;
class Pd;
class SendBuilder;
class Flow;
struct QpGeometry;
class Srq;
class ThreadDomain;
class Xrcd;

struct QpCapacity {
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
  std::uint32_t max_send_sge = 0, max_recv_sge = 0;
  std::uint32_t max_inline_bytes = 0;
};

// The two ends of the dynamically connected transport; of type kDriver. Values are mlx5dv's (mlx5dv_dc_type).
enum class DcType : std::uint8_t { kNone = 0, kDct = 1, kDci = 2 };

// Concurrent streams of a DCI: what is posted to one is in order, and an error stops that one only.
struct DciStreams {
  std::uint8_t log_concurrent = 0;
  std::uint8_t log_errored = 0;  // so many may be in error at once
};

// Receive side scaling of a RAW_PACKET QP: a packet's hash chooses a queue of the table.
struct RssOptions {
  uapi::RwqIndTableHandle table{};
  std::uint8_t function = 1;            // enum ibv_rx_hash_function_flags: 1 Toeplitz
  std::span<const std::uint8_t> key{};  // at most 128 bytes
  std::uint64_t fields = 0;             // enum ibv_rx_hash_fields
};

struct QpOptions {
  QpType type = QpType::kRc;
  Cq* send_cq = nullptr;       // all types but XRC_RECV
  Cq* recv_cq = nullptr;       // all types but XRC_SEND and XRC_RECV
  Srq* srq = nullptr;          // where receives come from; then there is no receive queue
  QpCapacity capacity{};       // asked; what was given is in Qp::capacity()
  bool signal_all = false;     // every send request is signalled
  bool wqe_signature = false;  // each WQE carries a check byte that the device looks at
  // The operations that will be posted: fewer operations give a smaller WQE. Bits of SendOperation (qp_geometry.h): the
  // verbs' (below bit 32) and mlx5dv's (from bit 32). None: all verbs' operations that the type has; no mlx5dv ones.
  std::optional<std::uint64_t> send_operations = std::nullopt;
  std::optional<std::uint64_t> dv_send_operations = std::nullopt;
  std::uint32_t create_flags = 0;     // enum ibv_qp_create_flags (IB_UVERBS_QP_CREATE_*) but for SQ_SIG_ALL
  std::uint32_t dv_create_flags = 0;  // mlx5dv_qp_create_flags; see dv_flags.h
  std::optional<std::uint32_t> source_qpn = std::nullopt;  // UD: on an IPoIB interface's own QPN
  std::uint32_t max_tso_header_bytes = 0;                  // RAW_PACKET
  std::optional<RssOptions> rss = std::nullopt;            // RAW_PACKET; then neither CQs nor queues
  DcType dc_type = DcType::kNone;                          // kDriver
  std::uint64_t dct_access_key = 0;                        // kDct, host order
  std::optional<DciStreams> dci_streams = std::nullopt;    // kDci
  ThreadDomain* thread_domain = nullptr;                   // whose register it rings
  // Any number of threads post at once, without waiting for each other; it costs each post a few atomic operations.
  // Requests that change memory keys or copy memory are refused.
  bool many_producers = false;
  Allocator* allocator = nullptr;                          // of its buffers and doorbell record; null: the driver
  void* user = nullptr;
  // What the kernel's asynchronous events name it by; 0: the driver chooses, and Context::next_async_event() finds it.
  std::uint64_t event_handle = 0;
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
  std::uint32_t qkey = 0;  // UD: datagrams with another one are dropped
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
// A QP without a queue (max_send_wr 0, an SRQ, XRC_RECV, DCT, RSS) refuses what is posted there with EINVAL.
class Qp : public ResourceHook {
 public:
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;
  ~Qp();  // of the driver: programs hold an Owned<Qp>

  // What ibv_modify_qp() does: attributes of `mask` (enum ibv_qp_attr_mask). The queues follow the state, as after the
  // functions below; a change to RESET forgets what was posted. `driver` is sent along if it is there (rate limit's
  // bursts). Errors: the kernel's; EINVAL for a state that the current one does not lead to. A DCT's number is its
  // qpn() once it is in RTR.
  Expected<uapi::QpChange> modify(const uapi::QpAttributes& attributes, std::uint32_t mask,
                                  const std::optional<mlx5_ib_modify_qp>& driver = std::nullopt);
  // Asks the kernel; `mask` as above. Capacities are those of capacity(). Sets state() to what the kernel says.
  Expected<uapi::QpAttributes> query(std::uint32_t mask);

  // Each takes of the attributes what the type has. UD needs none from to_rtr() on but its first PSN.
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
  // A request prepared once, for post_send() of its template, a third fewer instructions. EINVAL: it has not
  // exactly one SGE of 1 to 2^31 - 1 bytes, is inline, or is not SEND, RDMA WRITE or RDMA READ of RC, UC or XRC;
  // EOPNOTSUPP: a queue of many producers, or one whose WQEs carry a check byte.
  Expected<SendTemplate> make_template(const SendWr& request) const;
  // How many were posted: fewer than asked if the queue is full or the QP's state takes none. One doorbell for all.
  std::size_t post_send(const SendTemplate& made, std::span<const TemplateWr> requests) {
    return send_.post(made, requests);
  }
  PostResult post_recv(std::span<const RecvWr> requests) { return recv_.post(requests); }
  // Posts what changes `mkey`: one to three requests, of which the last is signalled (CompletionOpcode::kUmr) if
  // `flags` or the QP say so. Requests that use the key may follow at once. All or nothing; errors: ENOMEM (queue full,
  // layout too long for key or queue), EINVAL, EOPNOTSUPP.
  Expected<void> configure_mkey(Mkey& mkey, const MkeyChange& change, SendFlags flags, std::uint64_t wr_id);
  MkeyLimits mkey_limits() const;
  // Posts a copy; needs kMemcpy among the operations. Errors: ENOMEM (queue full), EINVAL, EOPNOTSUPP.
  Expected<void> copy_memory(const MemoryCopy& copy, SendFlags flags, std::uint64_t wr_id);
  // The same as a step of `builder`, which is this queue's.
  void add_copy(SendBuilder& builder, const MemoryCopy& copy, SendFlags flags, std::uint64_t wr_id) const;
  // In SQD, which a signature error leads to (signature pipelining): makes the requests with `wr_id` that the device
  // has not begun do nothing; they complete all the same. How many. EINVAL in another state.
  Expected<std::size_t> cancel_sends(std::uint64_t wr_id);
  // RAW_PACKET: frames that match `request` (whose `qp` is this one) are received. Errors: the kernel's.
  Expected<Owned<Flow>> create_flow(const uapi::FlowRequest& request);
  // A DCI's stream that an error has stopped goes on; what was posted to it meanwhile is gone. EINVAL: no DCI, or what
  // the device says. EOPNOTSUPP: not in RTS, or the device has no streams that can be in error.
  Expected<void> reset_dci_stream(std::uint16_t stream);
  // Why `request` is refused now, in words; empty if it would be taken.
  std::string explain_refusal(const SendWr& request) const;
  std::string explain_refusal(const RecvWr& request) const;

  Expected<QpState> query_state();                                          // asks the kernel
  QpState state() const { return state_.load(std::memory_order_relaxed); }  // as last set by this object
  const QpCapacity& capacity() const { return capacity_; }
  std::uint32_t qpn() const { return qpn_; }  // 0 for a DCT before RTR
  QpType type() const { return type_; }
  DcType dc_type() const { return dc_type_; }
  void* user() const { return user_; }
  std::uint64_t event_handle() const { return event_handle_; }
  Context& context() const { return *context_; }
  // Null where the type or the options give none.
  Pd* pd() const { return pd_; }
  Cq* send_cq() const { return send_cq_; }
  Cq* recv_cq() const { return recv_cq_; }
  Srq* srq() const { return srq_; }
  Xrcd* xrcd() const { return xrcd_; }
  ThreadDomain* thread_domain() const { return thread_domain_; }
  uapi::QpHandle handle() const { return handle_; }
  // What the driver works with.
  SendQueue& send_queue() { return send_; }
  ReceiveQueue& receive_queue() { return recv_; }
  const SendQueue& send_queue() const { return send_; }
  const ReceiveQueue& receive_queue() const { return recv_; }
  doorbell::RecordMemory* record() const { return record_.memory(); }
  // kMemcpy among the operations: 64 bytes of the PD's that the device may write to. Null without.
  const MemoryRegion* memcpy_scratch() const { return memcpy_scratch_; }
  const mlx5_ib_create_qp_resp& creation() const { return creation_; }   // RAW_PACKET: TIR, TIS, RQ and SQ numbers
  std::uint32_t ece_options() const { return ece_options_; }             // as the device granted them
  void set_ece(std::uint32_t options) { asked_ece_options_ = options; }  // for the changes that follow
  // Of the operations that posting needs: all that the type and the options have. Bits as in QpOptions.
  std::uint64_t send_operations() const { return send_operations_; }

  // Takes its completions out of its CQs, which nobody may poll meanwhile (CqOptions::lock).
  static Expected<void> destroy(Qp& qp, EventsReported* reported = nullptr);
  static void abandon(Qp& qp, const Error& why);

 private:
  friend class Context;
  friend class Pd;
  friend class Cq;
  friend class Xrcd;

  Qp(Context& context, Pd* pd, Xrcd* xrcd) : context_(&context), pd_(pd), xrcd_(xrcd) {}
  static Expected<Qp*> create(Context& context, Pd* pd, Xrcd* xrcd, const QpOptions& options);
  static Expected<Qp*> open(Xrcd& xrcd, std::uint32_t qpn, void* user, std::uint64_t event_handle);
  void adopt(const QpOptions& options);
  Expected<void> allocate(const QpOptions& options);
  Expected<void> allocate_user_index();
  Expected<void> configure_queues(const QpGeometry& plan, const QpOptions& options);
  mlx5_ib_create_qp kernel_request(const QpOptions& options) const;
  Expected<void> create_in_kernel(const QpOptions& options);
  Expected<void> set_number(std::uint32_t qpn);
  Expected<void> follow_state(QpState to, const uapi::QpChange& change);
  Expected<void> initialize_in_device();
  // The device takes receives of these from INIT on, but none may be taken before RTR: until then, what the doorbell
  // record is told goes to one that the device does not know.
  void hold_receives();
  bool holds_receives() const { return type_ == QpType::kRawPacket || underlay_; }
  Expected<void> change(QpState to, const uapi::QpAttributes& attributes, std::uint32_t mask);
  void set_state(QpState state);
  void forget_completions();
  bool is_dct() const { return dc_type_ == DcType::kDct; }
  std::string refuse_mkey(Refusal refusal, const MkeyWqes& wqes) const;
  std::string name() const;  // "QP 0x12"

  SendQueue send_;
  ReceiveQueue recv_;

  std::uint32_t qpn_ = 0;
  std::uint32_t user_index_ = kNoUserIndex;  // or the QPN, where CQEs carry that
  std::atomic<QpState> state_{QpState::kReset};
  QpType type_ = QpType::kRc;
  QpCapacity capacity_;
  DcType dc_type_ = DcType::kNone;
  bool is_rss_ = false, underlay_ = false;
  std::uint32_t dv_create_flags_ = 0;
  Context* context_;
  Pd* pd_;
  Xrcd* xrcd_;
  Cq* send_cq_ = nullptr;
  Cq* recv_cq_ = nullptr;
  Srq* srq_ = nullptr;
  ThreadDomain* thread_domain_ = nullptr;
  const MemoryRegion* memcpy_scratch_ = nullptr;
  void* user_ = nullptr;
  std::uint64_t event_handle_ = 0;
  std::uint64_t send_operations_ = 0;
  uapi::QpHandle handle_{};
  bool in_kernel_ = false;
  mlx5_ib_create_qp_resp creation_{};
  std::uint32_t ece_options_ = 0, asked_ece_options_ = 0;
  QueueMemory memory_, send_memory_;  // the second for types whose send queue has a buffer of its own
  DoorbellRecord record_;
  doorbell::RecordMemory held_record_{};

  static constexpr std::uint32_t kNoUserIndex = 0xffffffff;
};

}  // namespace umlx5
