// Completion queue entries of queue pairs, as the data path writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tools/softhca/hca/link.h"
#include "wqe/cqe.h"
#include "wqe/opcode.h"
#include "wqe/syndrome.h"

namespace softhca::hca {

// An error in a completion: the syndrome that programs see and the device's own reason beside it.
struct Failure {
  umlx5::wqe::ErrorSyndrome syndrome{};
  std::uint8_t vendor_syndrome = 0;

  constexpr explicit operator bool() const { return static_cast<std::uint8_t>(syndrome) != 0; }
  friend constexpr bool operator==(const Failure&, const Failure&) = default;
};

// Vendor syndromes are the device's own; where ConnectX logs show one for the same cause it is used here too.
namespace failure {
using Syndrome = umlx5::wqe::ErrorSyndrome;
inline constexpr Failure kMessageTooLong{Syndrome::kLocalLength, 0x01};
inline constexpr Failure kReceiveTooShort{Syndrome::kLocalLength, 0x02};
inline constexpr Failure kBadWqe{Syndrome::kLocalQpOperation, 0x68};        // unreadable, bad DS, index or QPN
inline constexpr Failure kBadOpcode{Syndrome::kLocalQpOperation, 0x69};     // not an opcode of this queue
inline constexpr Failure kBadRequest{Syndrome::kLocalQpOperation, 0x6a};    // a peer's packets make no message
inline constexpr Failure kNoReadAtomic{Syndrome::kLocalQpOperation, 0x6b};  // initiator depth is 0
inline constexpr Failure kBadAddress{Syndrome::kLocalQpOperation,
                                     0x6c};  // of a datagram: no such GID to send to or from
inline constexpr Failure kKeyUpdate{Syndrome::kMemoryWindowBind, 0x61};  // a UMR that its key does not allow
inline constexpr Failure kGatherFault{Syndrome::kLocalProtection, 0x51};
inline constexpr Failure kScatterFault{Syndrome::kLocalProtection, 0x52};
inline constexpr Failure kFlushedSend{Syndrome::kWorkRequestFlushed, 0xf5};
inline constexpr Failure kFlushedReceive{Syndrome::kWorkRequestFlushed, 0xf9};
inline constexpr Failure kBadResponse{Syndrome::kBadResponse, 0x8c};
inline constexpr Failure kReceiveAccess{Syndrome::kLocalAccess, 0x8b};
inline constexpr Failure kRemoteInvalidRequest{Syndrome::kRemoteInvalidRequest, 0x8a};
inline constexpr Failure kRemoteAccess{Syndrome::kRemoteAccess, 0x88};
inline constexpr Failure kRemoteOperation{Syndrome::kRemoteOperation, 0x89};
inline constexpr Failure kRetryExceeded{Syndrome::kTransportRetryExceeded, 0x81};
inline constexpr Failure kRnrRetryExceeded{Syndrome::kRnrRetryExceeded, 0x87};
}  // namespace failure

// A send WQE is done. `byte_count` is 0 except for reads and atomics. `data` goes into the CQE (empty, or at most 64
// bytes on a QP that scatters to CQE).
void complete_send(Link& link, const Qp& qp, std::uint16_t wqe_counter, umlx5::wqe::SendOpcode opcode,
                   std::uint32_t byte_count, std::span<const std::byte> data, bool solicited);
void fail_send(Link& link, const Qp& qp, std::uint16_t wqe_counter, umlx5::wqe::SendOpcode opcode, Failure failure);

// Tells `cq` that a block did not match its signature. Does nothing without a CQ.
void report_signature_error(Link& link, const Qp& qp, Cq* cq, const FoundSignatureError& found);

// Where the receive completions of a QP go: its own CQ, or the CQ of the XRC SRQ that gave the receive WQE.
struct ReceiveSink {
  Cq* cq = nullptr;
  std::uint32_t user_index_or_srqn = 0;
};
ReceiveSink receive_sink(const Qp& qp);
ReceiveSink receive_sink(const Srq& xrc_srq);

struct ReceiveCompletion {
  umlx5::wqe::CqeOpcode opcode{};
  std::uint16_t wqe_counter = 0;
  std::uint32_t byte_count = 0;
  std::uint32_t immediate_or_rkey = 0;
  std::uint32_t source_qpn = 0;
  bool has_grh = false;  // a datagram, with the network header before its data
  bool solicited = false;
};
void complete_receive(Link& link, const Qp& qp, const ReceiveSink& sink, const ReceiveCompletion& completion,
                      std::span<const std::byte> data);

// A frame is in a receive queue's memory.
struct FrameCompletion {
  std::uint16_t wqe_counter = 0;
  std::uint16_t wqe_id = 0;  // of a striding queue, whose WQE counter is the first stride
  std::uint32_t byte_count = 0;
  bool l3_ok = false, l4_ok = false;
  umlx5::wqe::L3Type l3_type{};
  std::uint8_t l4_type = 0;  // L4Type
  std::optional<std::uint16_t> stripped_vlan;
  std::uint16_t checksum = 0;
  std::uint32_t hash = 0;
  std::uint8_t hash_type = 0;
  std::uint32_t flow_tag = 0;
};
void complete_frame(Link& link, const Qp& qp, const FrameCompletion& completion);

void fail_receive(Link& link, const Qp& qp, const ReceiveSink& sink, std::uint16_t wqe_counter, Failure failure);

}  // namespace softhca::hca
