// The device's objects as its parts share them: commands create and change them, the transport and the queues use them.
// All of it is guarded by the HCA's lock. Numbers are in host order; names are the PRM's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/hca/address_space.h"
#include "tools/softhca/hca/page_list.h"
#include "tools/softhca/hca/umem.h"
#include "tools/softhca/wire/endpoint.h"
#include "wqe/mini_cqe.h"

namespace softhca::hca {

enum class QpState : std::uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqEr = 4,
  kSqDrained = 5,
  kErr = 6,
  kSuspended = 9
};
enum class QpType : std::uint8_t { kRc = 0, kUc = 1, kUd = 2, kXrc = 3, kDci = 5, kDct = 6, kRaw = 9 };  // QPC.st
constexpr bool is_reliable(QpType type) {
  return type == QpType::kRc || type == QpType::kXrc || type == QpType::kDci || type == QpType::kDct;
}

constexpr bool has_mmo(QpType type) { return type == QpType::kRc || type == QpType::kDci; }

struct Eq {
  std::uint32_t eqn = 0;
  PageList pages;
  std::uint8_t log_entries = 0;
  std::uint32_t uar = 0;
  std::uint32_t vector = 0;                  // MSI-X vector to raise
  std::uint64_t event_mask = 0;              // bit n: EQE type n
  std::uint32_t producer = 0, consumer = 0;  // free-running; the consumer's low 24 bits are what software told
  bool armed = false;
  bool overrun = false;  // an event was lost
  std::uint32_t users = 0;
};

inline constexpr std::uint32_t kNeverArmed = 0xffffffff;

using CqeBytes = std::array<std::byte, umlx5::wqe::kCqeBytes>;

// How a CQ writes completions that have much in common; compression.h.
struct Compression {
  umlx5::wqe::MiniCqeFormat format{};
  umlx5::wqe::CqeCompressionLayout layout{};
  std::vector<CqeBytes> run;  // completions of this pass that are alike, not written yet
  bool run_is_solicited = false;
  bool is_listed = false;           // in Device::gathering_cqs
  std::optional<CqeBytes> written;  // enhanced layout: the last completion, if a block of mini CQEs may follow it
};

struct Cq {
  std::uint32_t cqn = 0;
  std::uint32_t uid = 0;  // DEVX user that owns it
  PageList pages;
  UmemUse buffer_umem, record_umem;
  std::uint8_t log_entries = 0;
  std::uint32_t cqe_bytes = 64;       // 64 or 128
  std::uint64_t doorbell_record = 0;  // DMA address: BE32 consumer index, BE32 arm
  std::uint32_t uar = 0;
  std::uint32_t eqn = 0;
  bool ignore_overrun = false;
  bool in_error = false;
  std::optional<Compression> compression;
  std::uint32_t producer = 0;        // free-running CQE counter
  std::uint32_t consumer = 0;        // software's counter as last read, 24 bits
  std::uint32_t last_solicited = 0;  // `producer` after the last solicited or error CQE
  // Arming: an armed CQ raises one completion event for the next CQE (solicited ones or errors only if so armed) that
  // software has neither consumed nor been told of by an event. Programs may arm before they poll.
  bool armed = false, armed_solicited_only = false;
  std::uint32_t arm_word = kNeverArmed;  // last arm word taken: command sequence number 29:28, solicited 24, index 23:0
  std::uint32_t last_notified = 0;       // `producer` when the last event was raised
  std::uint8_t fired_sequence = 0xff;    // sequence number whose event has been raised; it arms no more
  std::uint32_t users = 0;               // work queues that report here, a QP's two count one each
};

enum class SrqKind : std::uint8_t { kBasic, kXrc, kRmp };

struct Srq {
  std::uint32_t srqn = 0;
  std::uint32_t uid = 0;
  std::uint32_t pdn = 0;
  std::uint32_t user_index = 0;
  PageList pages;
  UmemUse buffer_umem, record_umem;
  std::uint8_t log_entries = 0;
  std::uint32_t wqe_bytes = 0;
  std::uint64_t doorbell_record = 0;
  std::uint16_t head = 0;      // next WQE index to hand out, along the next-WQE links
  std::uint16_t consumed = 0;  // free-running count of WQEs handed out
  std::uint16_t limit = 0;     // limit event threshold, 0: not armed
  bool cyclic = false;         // WQEs follow one another by their places, whatever their links say
  bool reserved_lkey = false;  // the reserved lkey is valid in its WQEs
  SrqKind kind = SrqKind::kBasic;
  std::uint32_t xrcd = 0;
  Cq* cq = nullptr;  // XRC SRQs report here
  std::uint32_t users = 0;
};

// A striding receive queue: a frame takes as many strides of the WQE in use as it needs, and the next what follows.
struct Striding {
  std::uint32_t stride_bytes = 0;  // 0: the queue is not one
  std::uint32_t strides = 0;       // of a WQE
  std::uint32_t shift_bytes = 0;   // before a frame
};

// Where a connected QP's packets go.
struct Path {
  wire::Route route;
  std::array<std::uint8_t, 16> remote_gid{}, local_gid{};
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t log_mtu = 5;  // IBA code: 1 256 .. 5 4096
};

// Key value that names all memory by its DMA addresses, in the WQEs of queues that may use it (reserved_lkey below).
inline constexpr std::uint32_t kReservedLkey = 0x00000200;

class QpTransport;  // the transport's own state of one QP, transport.h

struct Qp {
  std::uint32_t qpn = 0;
  std::uint32_t uid = 0;
  std::uint32_t user_index = 0xffffff;  // what CQEs carry when the device runs CQE version 1
  QpType type = QpType::kRc;
  QpState state = QpState::kReset;
  std::uint32_t pdn = 0;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  std::uint32_t uar = 0;
  std::uint32_t xrcd = 0;  // of an XRC QP: the SRQs of this domain may be named to it

  PageList pages;  // receive queue first, then send queue
  UmemUse buffer_umem, record_umem;
  bool has_sq = true, has_rq = true;
  std::uint32_t rq_wqe_bytes = 0;
  std::uint8_t log_rq_entries = 0;
  std::uint64_t sq_position = 0;  // of the send queue in `pages`
  std::uint8_t log_sq_wqebbs = 0;
  std::uint64_t doorbell_record = 0;  // DMA address: BE32 receive counter, BE32 send counter

  // Connection (from the QPC at the modify commands).
  Path path;
  std::uint32_t remote_qpn = 0;
  std::uint32_t qkey = 0;
  std::uint16_t pkey_index = 0;
  std::uint32_t initial_send_psn = 0, initial_receive_psn = 0;  // 24 bits
  std::uint8_t retry_count = 0, rnr_retry = 0;                  // 3 bits each; rnr_retry 7: for ever
  std::uint8_t ack_timeout = 0;                                 // 5 bits, 4.096 us * 2^n, 0: none
  std::uint8_t min_rnr_timer = 0;                               // 5-bit code that this responder sends
  std::uint32_t max_initiated_rd_atomic = 0;                    // reads and atomics this requester may have outstanding
  std::uint32_t max_target_rd_atomic = 0;                       // that this responder accepts
  bool blocks_own_multicast = false;                            // does not get what it sends to groups that it is in
  bool remote_read = false, remote_write = false, remote_atomic = false;
  bool packet_credits = false;  // ACKs tell how many packets of messages the receive queue has room for
  bool out_of_order = false;    // both ends place data, and take receive WQEs, in any order
  bool drain_sigerr = false;    // a signature error of a request of its own takes the send queue to SQD
  // Scatter to CQE: bytes of responder/requester data a CQE may carry (0, 32 or 64).
  std::uint32_t inline_scatter_responder_bytes = 0, inline_scatter_requester_bytes = 0;
  bool reserved_lkey = false;  // the reserved lkey is valid on this QP
  bool copies_memory = false;  // MMO work requests are allowed
  // Raw packets: a send or a receive queue alone, under a number of its own.
  std::uint32_t tisn = 0, transport_domain = 0;
  bool strips_vlan = false;
  Striding striding;
  std::uint32_t users = 0;  // tables and interfaces that lead to a receive queue
  // Dynamically connected. A DCT takes requests with its key; a DCI that has streams goes to ERR with the last of the
  // streams that may fail (0: it has none, and goes to ERR with any work request that fails).
  std::uint64_t dc_access_key = 0;
  std::uint32_t dc_key_violations = 0;
  std::uint32_t max_errored_streams = 0;
  std::uint32_t multicast_groups = 0;  // that it is in
  // Kept by the transport, for QUERY_QP: what has been taken from the queues.
  std::uint16_t sq_consumed_wqebbs = 0;
  std::uint16_t rq_consumed = 0;

  std::unique_ptr<QpTransport> transport;
  Qp();
  ~Qp();  // in transport.cc
};

// Rights that an access needs; the mkey's and, for a remote access, the QP's must both allow it.
enum class Access : std::uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic };

// Who uses a key: the protection domain and the QP that it is used for (0: none).
struct KeyUser {
  constexpr KeyUser(std::uint32_t pd, std::uint32_t qp = 0) : pdn(pd), qpn(qp) {}  // NOLINT: a PD alone is a user too
  std::uint32_t pdn, qpn;
};

enum class MkeyFault : std::uint8_t {
  kNone,
  kNoSuchKey,  // unknown index, wrong tag byte, free
  kWrongPd,
  kWrongQp,  // bound to another QP
  kNoRight,
  kOutOfBounds,
  kFormatted,  // bytes do not pass it as they are
  kNotMapped,  // the pages behind it are gone, or it leads through too many keys
};

struct DmaRange {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
};

}  // namespace softhca::hca
