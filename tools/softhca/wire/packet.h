// RoCE v2 packets from the BTH to the end of the padding: built, parsed and printed by one description of each header.
//
// Source of every layout but one: InfiniBand Architecture Specification, volume 1, chapter 9 (data packet format) and
// annex A14 (XRC). How a ConnectX carries its dynamically connected transport is not published; Dceth below is this
// device's own, under opcodes that the specification leaves to manufacturers. So is Feth: an Ethernet frame of a raw
// packet queue is the payload of one "frame SEND_ONLY" packet to the address that its destination MAC stands for.
//
// RoCE v1, which is an Ethernet frame of its own type and not IP, has no framing here: what is sent from a GID of
// RoCE v1 travels in the same packets, and its receiver cannot tell it from RoCE v2.
//
// Everything on the wire is big-endian; the members here are host-order values. All functions are thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "wqe/layout.h"

namespace softhca::wire {

using umlx5::wqe::bits;
using umlx5::wqe::bytes;
using umlx5::wqe::Field;
using umlx5::wqe::Fields;
using umlx5::wqe::Format;
using umlx5::wqe::layout_is_valid;

// Bits 7..5 of the BTH opcode.
enum class Transport : std::uint8_t { kRc = 0, kUc = 1, kUd = 3, kXrc = 5, kDc = 6, kFrame = 7 };
std::string_view to_string(Transport transport);

// Bits 4..0 of the BTH opcode.
enum class Operation : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastWithImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyWithImmediate = 0x05,
  kRdmaWriteFirst = 0x06,
  kRdmaWriteMiddle = 0x07,
  kRdmaWriteLast = 0x08,
  kRdmaWriteLastWithImmediate = 0x09,
  kRdmaWriteOnly = 0x0a,
  kRdmaWriteOnlyWithImmediate = 0x0b,
  kRdmaReadRequest = 0x0c,
  kRdmaReadResponseFirst = 0x0d,
  kRdmaReadResponseMiddle = 0x0e,
  kRdmaReadResponseLast = 0x0f,
  kRdmaReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastWithInvalidate = 0x16,
  kSendOnlyWithInvalidate = 0x17,
};
std::string_view to_string(Operation operation);  // "RDMA_WRITE_FIRST"

// The BTH's first byte. A value that a peer sent may be none of the combinations the specification defines.
enum class Opcode : std::uint8_t {};

constexpr Opcode opcode_of(Transport transport, Operation operation) {
  return static_cast<Opcode>(static_cast<unsigned>(transport) << 5 | static_cast<unsigned>(operation));
}

enum class Kind : std::uint8_t {
  kSend,
  kRdmaWrite,
  kRdmaReadRequest,
  kRdmaReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd
};

enum class Position : std::uint8_t { kFirst, kMiddle, kLast, kOnly };

// Sets of extension headers; on the wire they follow the BTH in the order of these bits.
enum Headers : std::uint16_t {
  kNoHeaders = 0,
  kDeth = 1 << 0,
  kXrceth = 1 << 1,
  kReth = 1 << 2,
  kAtomicEth = 1 << 3,
  kAeth = 1 << 4,
  kAtomicAckEth = 1 << 5,
  kImmDt = 1 << 6,
  kIeth = 1 << 7,
  kDceth = 1 << 8,  // the one exception in the order: right behind the BTH
  kFeth = 1 << 9,
};

struct OpcodeInfo {
  bool defined = false;  // false: no such opcode, the rest means nothing
  Transport transport{};
  Operation operation{};
  Kind kind{};
  Position position{};
  bool request = false;           // travels from requester to responder
  bool has_payload = false;       // may carry payload; otherwise the packet ends with its headers
  std::uint16_t headers = 0;      // set of Headers
  std::uint8_t header_bytes = 0;  // BTH and extension headers

  constexpr bool has(Headers header) const { return (headers & header) != 0; }
  constexpr bool begins_message() const { return position == Position::kFirst || position == Position::kOnly; }
  constexpr bool ends_message() const { return position == Position::kLast || position == Position::kOnly; }
};

// What the specification says of an opcode (IBA 9.2.1, table 38 "OpCode field").
const OpcodeInfo& opcode_info(Opcode opcode);

// "RC SEND_FIRST", or "?" for an opcode that is not defined.
std::string to_string(Opcode opcode);

// Base transport header.
struct Bth {
  Opcode opcode{};
  bool solicited_event = false;
  bool migration_request = false;  // MigReq: 1 is "migrated", the state of a connection that uses no path migration
  std::uint8_t pad_bytes = 0;      // 0..3 bytes after the payload that are not payload
  std::uint8_t version = 0;        // TVer; see kOutOfOrderVersion
  std::uint16_t pkey = 0xffff;
  bool fecn = false;
  bool becn = false;
  std::uint32_t destination_qpn = 0;
  bool ack_request = false;
  std::uint32_t psn = 0;

  static constexpr std::string_view kName = "bth";
  static constexpr std::size_t kBytes = 12;
  static constexpr auto kFields = Fields{Field{"opcode", &Bth::opcode, bits(0, 31, 24), Format::kName},
                                         Field{"se", &Bth::solicited_event, bits(0, 23, 23)},
                                         Field{"migreq", &Bth::migration_request, bits(0, 22, 22)},
                                         Field{"pad", &Bth::pad_bytes, bits(0, 21, 20)},
                                         Field{"tver", &Bth::version, bits(0, 19, 16)},
                                         Field{"pkey", &Bth::pkey, bits(0, 15, 0)},
                                         Field{"fecn", &Bth::fecn, bits(4, 31, 31)},
                                         Field{"becn", &Bth::becn, bits(4, 30, 30)},
                                         Field{"dqpn", &Bth::destination_qpn, bits(4, 23, 0)},
                                         Field{"ackreq", &Bth::ack_request, bits(8, 31, 31)},
                                         Field{"psn", &Bth::psn, bits(8, 23, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<Bth>());

// How a ConnectX marks the packets of a connection that places data out of order is not published. Here the requests of
// one have this header version, which is in no specification, so that a peer which does not do the same notices.
inline constexpr std::uint8_t kOutOfOrderVersion = 1;

// Datagram extended transport header.
struct Deth {
  std::uint32_t qkey = 0;
  std::uint32_t source_qpn = 0;

  static constexpr std::string_view kName = "deth";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields =
      Fields{Field{"qkey", &Deth::qkey, bytes(0, 4)}, Field{"sqpn", &Deth::source_qpn, bits(4, 23, 0)}};
};
static_assert(layout_is_valid<Deth>());

// In every request of the dynamically connected transport. An initiator connects to a target by its first request and
// leaves it by connecting to another; there is no packet for either. A connection is named by the initiator's address
// and QPN and its time: requests of an earlier time than the one that the target knows are old ones.
struct Dceth {
  std::uint64_t access_key = 0;
  std::uint64_t connection = 0;  // when the initiator turned to the target, nanoseconds since 1970
  std::uint32_t source_qpn = 0;
  std::uint32_t first_psn = 0;  // of the connection

  static constexpr std::string_view kName = "dceth";
  static constexpr std::size_t kBytes = 24;
  static constexpr auto kFields = Fields{
      Field{"key", &Dceth::access_key, bytes(0, 8)}, Field{"connection", &Dceth::connection, bytes(8, 8)},
      Field{"sqpn", &Dceth::source_qpn, bits(16, 23, 0)}, Field{"first_psn", &Dceth::first_psn, bits(20, 23, 0)}};
};
static_assert(layout_is_valid<Dceth>());

// In front of an Ethernet frame. The BTH's QPN and PSN are 0. The transport domain means something to the device alone
// that sent the frame, when the frame comes back to it.
struct Feth {
  std::uint32_t transport_domain = 0;

  static constexpr std::string_view kName = "feth";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields = Fields{Field{"domain", &Feth::transport_domain, bits(0, 23, 0)}};
};
static_assert(layout_is_valid<Feth>());

// XRC extended transport header.
struct Xrceth {
  std::uint32_t srqn = 0;

  static constexpr std::string_view kName = "xrceth";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields = Fields{Field{"srqn", &Xrceth::srqn, bits(0, 23, 0)}};
};
static_assert(layout_is_valid<Xrceth>());

// RDMA extended transport header.
struct Reth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t dma_bytes = 0;

  static constexpr std::string_view kName = "reth";
  static constexpr std::size_t kBytes = 16;
  static constexpr auto kFields =
      Fields{Field{"va", &Reth::address, bytes(0, 8)}, Field{"rkey", &Reth::rkey, bytes(8, 4)},
             Field{"length", &Reth::dma_bytes, bytes(12, 4), Format::kDecimal}};
};
static_assert(layout_is_valid<Reth>());

struct AtomicEth {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;

  static constexpr std::string_view kName = "atomiceth";
  static constexpr std::size_t kBytes = 28;
  static constexpr auto kFields = Fields{
      Field{"va", &AtomicEth::address, bytes(0, 8)}, Field{"rkey", &AtomicEth::rkey, bytes(8, 4)},
      Field{"swap_add", &AtomicEth::swap_or_add, bytes(12, 8)}, Field{"compare", &AtomicEth::compare, bytes(20, 8)}};
};
static_assert(layout_is_valid<AtomicEth>());

// Syndrome bits 6..5 (IBA 9.7.5.2.1).
enum class AckKind : std::uint8_t { kAck = 0, kRnrNak = 1, kReserved = 2, kNak = 3 };
std::string_view to_string(AckKind kind);

// Syndrome bits 4..0 of a NAK (IBA 9.7.5.2.2).
enum class NakCode : std::uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};
std::string_view to_string(NakCode code);  // "?" for a reserved code

// Syndrome bits 4..0 of an ACK from a responder that does not count end-to-end credits.
inline constexpr std::uint8_t kInvalidCredit = 0x1f;

// An ACK's code of the most credits that are no more than `count`, and the credits of a code (IBA table 46 "End-to-End
// Flow Control Credit Field Encodings"); none for kInvalidCredit. `code` is taken modulo 32.
std::uint8_t credit_code(std::uint32_t count);
std::optional<std::uint32_t> credits(std::uint8_t code);

// ACK extended transport header.
struct Aeth {
  AckKind kind{};
  std::uint8_t value = 0;  // an ACK's credit code, an RNR NAK's timer code, a NAK's NakCode
  std::uint32_t msn = 0;

  static constexpr Aeth ack(std::uint32_t msn, std::uint8_t credit = kInvalidCredit) {
    return {AckKind::kAck, credit, msn};
  }
  static constexpr Aeth rnr_nak(std::uint32_t msn, std::uint8_t timer) { return {AckKind::kRnrNak, timer, msn}; }
  static constexpr Aeth nak(std::uint32_t msn, NakCode code) {
    return {AckKind::kNak, static_cast<std::uint8_t>(code), msn};
  }
  constexpr NakCode nak_code() const { return static_cast<NakCode>(value); }

  static constexpr std::string_view kName = "aeth";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields =
      Fields{Field{"kind", &Aeth::kind, bits(0, 30, 29), Format::kName}, Field{"value", &Aeth::value, bits(0, 28, 24)},
             Field{"msn", &Aeth::msn, bits(0, 23, 0), Format::kDecimal}};
};
static_assert(layout_is_valid<Aeth>());

struct AtomicAckEth {
  std::uint64_t original = 0;

  static constexpr std::string_view kName = "atomicacketh";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields = Fields{Field{"original", &AtomicAckEth::original, bytes(0, 8)}};
};
static_assert(layout_is_valid<AtomicAckEth>());

struct ImmDt {
  std::uint32_t immediate = 0;

  static constexpr std::string_view kName = "immdt";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields = Fields{Field{"imm", &ImmDt::immediate, bytes(0, 4)}};
};
static_assert(layout_is_valid<ImmDt>());

// Invalidate extended transport header.
struct Ieth {
  std::uint32_t rkey = 0;

  static constexpr std::string_view kName = "ieth";
  static constexpr std::size_t kBytes = 4;
  static constexpr auto kFields = Fields{Field{"rkey", &Ieth::rkey, bytes(0, 4)}};
};
static_assert(layout_is_valid<Ieth>());

// A packet in parts. Only the headers in opcode_info(bth.opcode).headers are on the wire; the others are ignored by
// build() and zero after parse().
struct Packet {
  Bth bth{};
  Dceth dceth{};
  Deth deth{};
  Xrceth xrceth{};
  Reth reth{};
  AtomicEth atomic_eth{};
  Aeth aeth{};
  AtomicAckEth atomic_ack_eth{};
  ImmDt imm_dt{};
  Ieth ieth{};
  Feth feth{};
  std::span<const std::byte> payload{};  // without padding; after parse() it points into the parsed bytes

  const OpcodeInfo& info() const { return opcode_info(bth.opcode); }
};

enum class ParseError : std::uint8_t {
  kTooShort,       // ends within its headers
  kNotWholeWords,  // not a multiple of 4 bytes
  kUnknownOpcode,
  kUnknownVersion,     // TVer is neither 0 nor kOutOfOrderVersion
  kPadWithoutPayload,  // more padding than bytes after the headers
  kUnexpectedPayload,  // payload or padding after an opcode that carries none
};
std::string_view to_string(ParseError error);

// `packet` is BTH .. padding, without the ICRC. Any bytes are acceptable input.
std::expected<Packet, ParseError> parse(std::span<const std::byte> packet);

// Bytes from the BTH to the end of the padding. `opcode` must be defined.
std::size_t packet_bytes(Opcode opcode, std::size_t payload_bytes);

// Writes the BTH and the opcode's extension headers to `out`, the pad count of `payload_bytes` in the BTH
// (bth.pad_bytes is ignored) and the zero padding behind the place of the payload, and returns that place for the
// caller to fill; packet.payload is ignored. Empty with a null data() if the opcode is not defined, carries no payload
// but payload_bytes is not 0, or `out` is shorter than packet_bytes().
std::span<std::byte> build_headers(const Packet& packet, std::size_t payload_bytes, std::span<std::byte> out);

// build_headers() and the payload, which must not overlap `out`. Returns packet_bytes(), or 0 where build_headers()
// fails.
std::size_t build(const Packet& packet, std::span<std::byte> out);

// One line: each header that is on the wire with its fields that are not zero, and the payload's size.
std::string to_string(const Packet& packet);

// RNR NAK timer codes (IBA table 45 "Encoding for RNR NAK Timer Field"); `code` is taken modulo 32.
std::uint32_t rnr_timer_us(std::uint8_t code);
// The code of the shortest time that is not shorter than `us`; 0 (655.36 ms, the longest) if there is none.
std::uint8_t rnr_timer_code(std::uint32_t us);

// Local ACK timeout, 4.096 us * 2^code (IBA 9.9.2.1.1); none (wait for ever) for code 0. `code` is taken modulo 32.
std::optional<std::uint64_t> ack_timeout_ns(std::uint8_t code);

// a - b in the 24-bit sequence space, -2^23 .. 2^23-1: PSNs, MSNs.
constexpr std::int32_t psn_difference(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>((a - b) << 8) >> 8;
}
constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t count) { return (psn + count) & 0xffffff; }

}  // namespace softhca::wire
