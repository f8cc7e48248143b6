// Queue pair: its life, and posting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "driver/resource.h"
#include "driver/types.h"
#include "driver/work_request.h"
#include "uapi/error.h"

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
  QpCapacity capacity;             // asked; what was given is in Qp::capacity()
  bool signal_all = false;         // every send request is signalled
  // The operations that will be posted: fewer operations give a smaller WQE. None: all that the type has.
  std::optional<std::uint64_t> send_operations;  // bits of SendOperation (qp_geometry.h)
  void* user = nullptr;
};

// How the other side is reached (RoCE v2).
struct RemoteAddress {
  Gid gid{};                       // of the remote port
  std::uint8_t local_gid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;    // 20 bits
  std::uint8_t service_level = 0;
  std::uint8_t port = 1;
};

struct InitAttributes {
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  AccessFlags remote_access;
};

struct ReadyToReceiveAttributes {
  RemoteAddress remote;
  std::uint32_t remote_qpn = 0;
  std::uint32_t receive_psn = 0;   // 24 bits: the first PSN the other side sends
  Mtu path_mtu = Mtu::k1024;
  std::uint8_t max_target_reads_atomics = 16;
  std::uint8_t min_rnr_timer = 12; // IBA code 0..31; 12: 0.64 ms
};

struct ReadyToSendAttributes {
  std::uint32_t send_psn = 0;
  std::uint8_t timeout = 14;       // 4.096 us * 2^n; 0: none
  std::uint8_t retry_count = 7;    // 0..7
  std::uint8_t rnr_retry = 7;      // 0..7; 7: for ever
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
  Expected<void> to_init(const InitAttributes& attributes);
  Expected<void> to_rtr(const ReadyToReceiveAttributes& attributes);
  Expected<void> to_rts(const ReadyToSendAttributes& attributes);
  Expected<void> to_sqd();          // RTS -> SQD; to_rts() brings it back
  Expected<void> to_error();
  Expected<void> to_reset();        // forgets everything posted; completions of this QP vanish from its CQs
  // INIT, RTR and RTS in one call with this QP's own first send PSN `local_psn`.
  Expected<void> connect(const QpAddress& peer, std::uint32_t local_psn, const InitAttributes& init,
                         const ReadyToReceiveAttributes& rtr = {}, const ReadyToSendAttributes& rts = {});

  // Never enter the kernel, lock or allocate.
  PostResult post_send(std::span<const SendWr> requests);
  PostResult post_recv(std::span<const RecvWr> requests);
  // Why `request` is refused now, in words; empty if it would be taken.
  std::string explain_refusal(const SendWr& request) const;
  std::string explain_refusal(const RecvWr& request) const;

  Expected<QpState> query_state();  // asks the kernel
  QpState state() const;            // as last set by this object
  const QpCapacity& capacity() const;
  std::uint32_t qpn() const;
  QpType type() const;
  void* user() const;

  static Expected<void> destroy(Qp& qp);
  static void abandon(Qp& qp, const Error& why);
};

}  // namespace umlx5
