// What is posted, and what comes back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "driver/types.h"
#include "wqe/address_vector.h"
#include "wqe/data.h"
#include "wqe/syndrome.h"

namespace umlx5 {

using wqe::CompletionStatus;

// An address vector as a WQE holds it; Ah::address_vector() is one.
using WireAddressVector = std::array<std::byte, wqe::AddressVector::kBytes>;

// What a memory window is bound to. Type 1: an rkey that the driver chooses; type 2: one that the program chooses.
struct WindowBinding {
  bool type_2 = true;
  std::uint32_t old_rkey = 0;  // the window's
  std::uint32_t new_rkey = 0;  // only its low 8 bits may differ from the old one's
  std::uint32_t lkey = 0;      // of the region
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;  // 0 takes the window off what it is bound to; at most 2^31
  AccessFlags access{};            // remote access and kZeroBased
};

// One send work request. The SGE array is read during the call only; the memory it names must stay until completion,
// except with kInline, which copies the data during the call and ignores the lkeys.
struct SendWr {
  std::uint64_t wr_id = 0;
  SendOpcode opcode = SendOpcode::kSend;
  SendFlags flags{};
  std::span<const Sge> sges{};             // READ and atomics: where the result goes; atomics: 8 bytes
  std::uint32_t immediate_big_endian = 0;  // kSendWithImm, kRdmaWriteWithImm: put on the wire as it lies in memory
  std::uint32_t invalidate_rkey = 0;       // kSendWithInvalidate, kLocalInvalidate; host order
  std::uint64_t remote_address = 0;        // RDMA and atomics; atomics: a multiple of 8
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;  // kFetchAdd: what is added; kCompareSwap: what is compared. Host order
  std::uint64_t swap = 0;         // kCompareSwap
  const WireAddressVector* destination = nullptr;  // UD, DC: of an Ah; read during the call only
  std::uint32_t remote_qpn = 0, remote_qkey = 0;   // UD; DC: the target's number
  std::uint64_t dc_access_key = 0;                 // DC: the target's
  std::uint16_t dci_stream = 0;                    // DC: which of QpOptions::dci_streams
  std::uint32_t remote_srqn = 0;                   // XRC
  WindowBinding window{};                          // kBindMemoryWindow
  std::span<const std::byte> tso_header{};         // kTso: goes in front of each piece of the data
  std::uint16_t tso_piece_bytes = 0;               // kTso: of data in one frame, its MSS
};

// A copy by the device within the memory of this process, in whole or not at all.
struct MemoryCopy {
  std::uint64_t destination = 0, source = 0;
  std::uint32_t destination_lkey = 0, source_lkey = 0;
  std::uint64_t length_bytes = 0;  // 1 to HcaCapabilities::max_memcpy_bytes
};

struct RecvWr {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges{};
};

// Why a request is not taken; explain_refusal() of the QP tells in words.
enum class Refusal : std::uint8_t {
  kNone,
  kFull,           // as many requests are outstanding as the queue holds
  kState,          // the QP's state takes none, or there is no such queue
  kOpcode,         // not one of the queue's
  kNoAtomics,      // the device has none
  kSges,           // more than the queue's max_sge
  kLength,         // an SGE of more than 2^31 bytes
  kInline,         // more bytes than the queue's max_inline_bytes
  kNotInline,      // the device writes the data of this opcode
  kUnsupported,    // a step that the driver does not build
  kNoDestination,  // a datagram without an address
  kRawLength,      // a WQE made elsewhere without length, or longer than the queue's
  kKeyChange,      // a change of a memory key that it cannot take, or whose steps are not those that it needs
  kKeyLayout,      // what changes a memory key is longer than the queue's WQEs
  kWindow,         // a binding of more than 2^31 bytes
  kFrame,          // a frame shorter than what the device wants to see in the WQE
  kChecksum,       // the device computes no checksums
  kTsoHeader,      // no header, or a longer one than the queue was created for
  kTsoLength,      // more data than the device cuts up at once
  kCopyLength,     // a copy of no bytes, or of more than the device copies at once
};

// Requests before number `posted` are with the device; request number `posted` was refused if error is not 0.
// ENOMEM: the queue is full. EINVAL: the request does not fit the queue (SGEs, inline bytes, opcode) or the QP's state
// does not take it; EOPNOTSUPP: the device has no atomics.
struct PostResult {
  std::size_t posted = 0;
  int error = 0;  // positive errno
  Refusal refusal = Refusal::kNone;
  explicit operator bool() const { return error == 0; }
};
int errno_of(Refusal refusal);

// Values are the verbs' (ibv_wc_opcode).
enum class CompletionOpcode : std::uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindMemoryWindow = 5,
  kLocalInvalidate = 6,
  kTso = 7,
  kRecv = 128,
  kRecvRdmaWithImm = 129,
  kUmr = 135,     // a memory key was configured (IBV_WC_DRIVER1)
  kRawWqe = 136,  // IBV_WC_DRIVER2
  kMemcpy = 137,  // IBV_WC_DRIVER3
};
std::string_view to_string(CompletionOpcode opcode);

class Qp;
class Srq;

// One completion. With a status other than kSuccess only wr_id, status, the syndromes, qp, srq and qpn are meaningful.
struct Completion {
  std::uint64_t wr_id = 0;
  Qp* qp = nullptr;    // the queue pair, valid while it is not destroyed; null for a receive of an XRC target
  Srq* srq = nullptr;  // the shared receive queue that a receive came from
  std::uint32_t qpn = 0;
  CompletionStatus status = CompletionStatus::kSuccess;  // wqe/syndrome.h
  CompletionOpcode opcode = CompletionOpcode::kSend;
  bool has_immediate = false;
  bool has_invalidated_rkey = false;
  std::uint8_t syndrome = 0;  // as the device wrote it, 0 on success
  std::uint8_t vendor_syndrome = 0;
  std::uint32_t byte_count = 0;            // received (with the GRH's 40 on UD), read; 8 for atomics
  std::uint32_t immediate_big_endian = 0;  // or, host order, the rkey that was invalidated
  std::uint64_t device_timestamp = 0;      // device clock ticks

  // Of a datagram that was received: its sender's QPN, service level, and whether the buffer's first 40 bytes are its
  // GRH (on RoCE v2 over IPv4 the IP header is their last 20 bytes).
  std::uint32_t source_qpn() const { return source_word & 0xffffff; }
  std::uint8_t service_level() const { return source_word >> 24 & 0xf; }
  bool has_grh() const { return (source_word >> 28 & 3) != 0; }
  std::uint32_t source_word = 0;  // as in the CQE: GRH 29:28, SL 27:24, QPN 23:0

  // Of a frame on a receive work queue that strides: `wr_id` is of the request whose memory it is in, from this stride
  // on, and `byte_count` the CQE's word, which tells its bytes and strides, or that strides were left out.
  wqe::StridingByteCount striding_byte_count() const { return {byte_count}; }
  std::uint16_t first_stride() const { return static_cast<std::uint16_t>(source_word); }

  // Of a frame that was received: whether it is IPv4 with the right checksum in its header and in TCP's or UDP's, and
  // whether its outermost VLAN tag was taken off, which is then vlan_tag().
  bool has_right_checksums() const { return (frame_word >> 25 & 3) == 3 && (frame_word >> 18 & 3) == 2; }
  bool has_vlan_tag() const { return (frame_word >> 16 & 1) != 0; }
  std::uint16_t vlan_tag() const { return static_cast<std::uint16_t>(frame_word); }
  std::uint32_t frame_word = 0;  // as in the CQE: L4 right 26, L3 right 25, L3 type 19:18, stripped 16, tag 15:0
};

// "RECV failed on QP 0x12, wr_id 7: local length error (syndrome 0x01, vendor 0x..): the message is longer than ..."
std::string describe(const Completion& completion);

}  // namespace umlx5
