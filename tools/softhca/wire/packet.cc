#include "tools/softhca/wire/packet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softhca::wire {
namespace {

using umlx5::wqe::load;
using umlx5::wqe::print;
using umlx5::wqe::store;

// Calls visit(bit, member) for each extension header in wire order.
template <typename PacketRef, typename Visitor>
constexpr void for_each_header(PacketRef& packet, Visitor&& visit) {
  visit(kDceth, packet.dceth);
  visit(kDeth, packet.deth);
  visit(kXrceth, packet.xrceth);
  visit(kReth, packet.reth);
  visit(kAtomicEth, packet.atomic_eth);
  visit(kAeth, packet.aeth);
  visit(kAtomicAckEth, packet.atomic_ack_eth);
  visit(kImmDt, packet.imm_dt);
  visit(kIeth, packet.ieth);
  visit(kFeth, packet.feth);
}

// Sets of transports that have an operation.
enum Transports : std::uint8_t { kReliable, kConnected, kAll, kAllAndFrame };

constexpr bool contains(Transports set, Transport transport) {
  switch (transport) {
    case Transport::kRc:
    case Transport::kXrc:
    case Transport::kDc:
      return true;
    case Transport::kUc:
      return set != kReliable;
    case Transport::kUd:
      return set >= kAll;
    case Transport::kFrame:
      return set == kAllAndFrame;
  }
  return false;
}

constexpr std::array kTransports = {
    std::pair{Transport::kRc, std::string_view{"RC"}}, std::pair{Transport::kUc, std::string_view{"UC"}},
    std::pair{Transport::kUd, std::string_view{"UD"}}, std::pair{Transport::kXrc, std::string_view{"XRC"}},
    std::pair{Transport::kDc, std::string_view{"DC"}}, std::pair{Transport::kFrame, std::string_view{"frame"}}};

// An operation as it is for RC; UD, XRC, DC and frames put one header in front of these.
struct OperationRow {
  Operation operation;
  std::string_view name;
  Transports transports;
  Kind kind;
  Position position;
  bool request;
  bool has_payload;
  unsigned headers;
};

constexpr std::array kOperations = {
    OperationRow{Operation::kSendFirst, "SEND_FIRST", kConnected, Kind::kSend, Position::kFirst, true, true,
                 kNoHeaders},
    OperationRow{Operation::kSendMiddle, "SEND_MIDDLE", kConnected, Kind::kSend, Position::kMiddle, true, true,
                 kNoHeaders},
    OperationRow{Operation::kSendLast, "SEND_LAST", kConnected, Kind::kSend, Position::kLast, true, true, kNoHeaders},
    OperationRow{Operation::kSendLastWithImmediate, "SEND_LAST_WITH_IMMEDIATE", kConnected, Kind::kSend,
                 Position::kLast, true, true, kImmDt},
    OperationRow{Operation::kSendOnly, "SEND_ONLY", kAllAndFrame, Kind::kSend, Position::kOnly, true, true, kNoHeaders},
    OperationRow{Operation::kSendOnlyWithImmediate, "SEND_ONLY_WITH_IMMEDIATE", kAll, Kind::kSend, Position::kOnly,
                 true, true, kImmDt},
    OperationRow{Operation::kRdmaWriteFirst, "RDMA_WRITE_FIRST", kConnected, Kind::kRdmaWrite, Position::kFirst, true,
                 true, kReth},
    OperationRow{Operation::kRdmaWriteMiddle, "RDMA_WRITE_MIDDLE", kConnected, Kind::kRdmaWrite, Position::kMiddle,
                 true, true, kNoHeaders},
    OperationRow{Operation::kRdmaWriteLast, "RDMA_WRITE_LAST", kConnected, Kind::kRdmaWrite, Position::kLast, true,
                 true, kNoHeaders},
    OperationRow{Operation::kRdmaWriteLastWithImmediate, "RDMA_WRITE_LAST_WITH_IMMEDIATE", kConnected, Kind::kRdmaWrite,
                 Position::kLast, true, true, kImmDt},
    OperationRow{Operation::kRdmaWriteOnly, "RDMA_WRITE_ONLY", kConnected, Kind::kRdmaWrite, Position::kOnly, true,
                 true, kReth},
    OperationRow{Operation::kRdmaWriteOnlyWithImmediate, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", kConnected, Kind::kRdmaWrite,
                 Position::kOnly, true, true, kReth | kImmDt},
    OperationRow{Operation::kRdmaReadRequest, "RDMA_READ_REQUEST", kReliable, Kind::kRdmaReadRequest, Position::kOnly,
                 true, false, kReth},
    OperationRow{Operation::kRdmaReadResponseFirst, "RDMA_READ_RESPONSE_FIRST", kReliable, Kind::kRdmaReadResponse,
                 Position::kFirst, false, true, kAeth},
    OperationRow{Operation::kRdmaReadResponseMiddle, "RDMA_READ_RESPONSE_MIDDLE", kReliable, Kind::kRdmaReadResponse,
                 Position::kMiddle, false, true, kNoHeaders},
    OperationRow{Operation::kRdmaReadResponseLast, "RDMA_READ_RESPONSE_LAST", kReliable, Kind::kRdmaReadResponse,
                 Position::kLast, false, true, kAeth},
    OperationRow{Operation::kRdmaReadResponseOnly, "RDMA_READ_RESPONSE_ONLY", kReliable, Kind::kRdmaReadResponse,
                 Position::kOnly, false, true, kAeth},
    OperationRow{Operation::kAcknowledge, "ACKNOWLEDGE", kReliable, Kind::kAcknowledge, Position::kOnly, false, false,
                 kAeth},
    OperationRow{Operation::kAtomicAcknowledge, "ATOMIC_ACKNOWLEDGE", kReliable, Kind::kAtomicAcknowledge,
                 Position::kOnly, false, false, kAeth | kAtomicAckEth},
    OperationRow{Operation::kCompareSwap, "COMPARE_SWAP", kReliable, Kind::kCompareSwap, Position::kOnly, true, false,
                 kAtomicEth},
    OperationRow{Operation::kFetchAdd, "FETCH_ADD", kReliable, Kind::kFetchAdd, Position::kOnly, true, false,
                 kAtomicEth},
    OperationRow{Operation::kSendLastWithInvalidate, "SEND_LAST_WITH_INVALIDATE", kReliable, Kind::kSend,
                 Position::kLast, true, true, kIeth},
    OperationRow{Operation::kSendOnlyWithInvalidate, "SEND_ONLY_WITH_INVALIDATE", kReliable, Kind::kSend,
                 Position::kOnly, true, true, kIeth},
};

constexpr std::size_t header_bytes_of(unsigned headers) {
  std::size_t total = Bth::kBytes;
  Packet packet;
  for_each_header(packet, [&](Headers bit, const auto& header) {
    if ((headers & bit) != 0) {
      total += std::remove_cvref_t<decltype(header)>::kBytes;
    }
  });
  return total;
}

constexpr unsigned transport_header(Transport transport, bool request) {
  if (transport == Transport::kUd) {
    return kDeth;
  }
  if (transport == Transport::kFrame) {
    return kFeth;
  }
  if (!request) {
    return kNoHeaders;
  }
  return transport == Transport::kXrc ? kXrceth : transport == Transport::kDc ? kDceth : kNoHeaders;
}

constexpr std::array<OpcodeInfo, 256> make_table() {
  std::array<OpcodeInfo, 256> table{};
  for (const OperationRow& row : kOperations) {
    for (const auto& [transport, name] : kTransports) {
      if (contains(row.transports, transport)) {
        const unsigned headers = row.headers | transport_header(transport, row.request);
        table[static_cast<std::size_t>(opcode_of(transport, row.operation))] = {
            .defined = true,
            .transport = transport,
            .operation = row.operation,
            .kind = row.kind,
            .position = row.position,
            .request = row.request,
            .has_payload = row.has_payload,
            .headers = static_cast<std::uint16_t>(headers),
            .header_bytes = static_cast<std::uint8_t>(header_bytes_of(headers))};
      }
    }
  }
  return table;
}

constexpr std::array<OpcodeInfo, 256> kTable = make_table();

constexpr std::size_t padding_of(std::size_t payload_bytes) { return -payload_bytes & 3; }

// Index is the code.
constexpr std::array<std::uint32_t, 32> kRnrTimerUs = {
    655360, 10,   20,   30,   40,    60,    80,    120,   160,   240,   320,   480,    640,    960,    1280,   1920,
    2560,   3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

// Index is the code.
constexpr std::array<std::uint32_t, kInvalidCredit> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

}  // namespace

const OpcodeInfo& opcode_info(Opcode opcode) { return kTable[static_cast<std::size_t>(opcode)]; }

std::string_view to_string(Transport transport) {
  const auto* const found = std::ranges::find(kTransports, transport, &std::pair<Transport, std::string_view>::first);
  return found == kTransports.end() ? "?" : found->second;
}

std::string_view to_string(Operation operation) {
  const auto* const found = std::ranges::find(kOperations, operation, &OperationRow::operation);
  return found == kOperations.end() ? "?" : found->name;
}

std::string to_string(Opcode opcode) {
  const OpcodeInfo& info = opcode_info(opcode);
  if (!info.defined) {
    return "?";
  }
  return fmt::format("{} {}", to_string(info.transport), to_string(info.operation));
}

std::uint8_t credit_code(std::uint32_t count) {
  return static_cast<std::uint8_t>(std::ranges::upper_bound(kCredits, count) - kCredits.begin() - 1);
}

std::optional<std::uint32_t> credits(std::uint8_t code) {
  return (code & 31) == kInvalidCredit ? std::nullopt : std::optional(kCredits[code & 31]);
}

std::string_view to_string(AckKind kind) {
  switch (kind) {
    case AckKind::kAck:
      return "ACK";
    case AckKind::kRnrNak:
      return "RNR_NAK";
    case AckKind::kReserved:
      return "reserved";
    case AckKind::kNak:
      return "NAK";
  }
  return "?";
}

std::string_view to_string(NakCode code) {
  switch (code) {
    case NakCode::kPsnSequenceError:
      return "PSN sequence error";
    case NakCode::kInvalidRequest:
      return "invalid request";
    case NakCode::kRemoteAccessError:
      return "remote access error";
    case NakCode::kRemoteOperationalError:
      return "remote operational error";
    case NakCode::kInvalidRdRequest:
      return "invalid RD request";
  }
  return "?";
}

std::string_view to_string(ParseError error) {
  switch (error) {
    case ParseError::kTooShort:
      return "shorter than its headers";
    case ParseError::kNotWholeWords:
      return "not a multiple of 4 bytes";
    case ParseError::kUnknownOpcode:
      return "unknown opcode";
    case ParseError::kUnknownVersion:
      return "unknown transport header version";
    case ParseError::kPadWithoutPayload:
      return "more padding than bytes after the headers";
    case ParseError::kUnexpectedPayload:
      return "payload after an opcode that carries none";
  }
  return "?";
}

std::expected<Packet, ParseError> parse(std::span<const std::byte> packet) {
  if (packet.size() < Bth::kBytes) {
    return std::unexpected(ParseError::kTooShort);
  }
  std::expected<Packet, ParseError> result;
  Packet& parsed = *result;
  parsed.bth = load<Bth>(packet.data());
  const OpcodeInfo& info = parsed.info();
  if (!info.defined) {
    return std::unexpected(ParseError::kUnknownOpcode);
  }
  if (parsed.bth.version > kOutOfOrderVersion) {
    return std::unexpected(ParseError::kUnknownVersion);
  }
  if (packet.size() < info.header_bytes) {
    return std::unexpected(ParseError::kTooShort);
  }
  if (packet.size() % 4 != 0) {
    return std::unexpected(ParseError::kNotWholeWords);
  }
  const std::size_t rest = packet.size() - info.header_bytes;
  if (!info.has_payload && (rest != 0 || parsed.bth.pad_bytes != 0)) {
    return std::unexpected(ParseError::kUnexpectedPayload);
  }
  if (parsed.bth.pad_bytes > rest) {
    return std::unexpected(ParseError::kPadWithoutPayload);
  }
  const std::byte* from = packet.data() + Bth::kBytes;
  for_each_header(parsed, [&]<typename Header>(Headers bit, Header& header) {
    if (info.has(bit)) {
      header = load<Header>(from);
      from += Header::kBytes;
    }
  });
  parsed.payload = {from, rest - parsed.bth.pad_bytes};
  return result;
}

std::size_t packet_bytes(Opcode opcode, std::size_t payload_bytes) {
  return opcode_info(opcode).header_bytes + payload_bytes + padding_of(payload_bytes);
}

std::span<std::byte> build_headers(const Packet& packet, std::size_t payload_bytes, std::span<std::byte> out) {
  const OpcodeInfo& info = packet.info();
  if (!info.defined || (payload_bytes != 0 && !info.has_payload) ||
      out.size() < packet_bytes(packet.bth.opcode, payload_bytes)) {
    return {};
  }
  Bth bth = packet.bth;
  bth.pad_bytes = static_cast<std::uint8_t>(padding_of(payload_bytes));
  store(out.data(), bth);
  std::byte* to = out.data() + Bth::kBytes;
  for_each_header(packet, [&]<typename Header>(Headers bit, const Header& header) {
    if (info.has(bit)) {
      store(to, header);
      to += Header::kBytes;
    }
  });
  std::fill_n(to + payload_bytes, bth.pad_bytes, std::byte{0});
  return {to, payload_bytes};
}

std::size_t build(const Packet& packet, std::span<std::byte> out) {
  const std::span<std::byte> place = build_headers(packet, packet.payload.size(), out);
  if (place.data() == nullptr) {
    return 0;
  }
  if (!place.empty()) {
    std::memcpy(place.data(), packet.payload.data(), place.size());
  }
  return packet_bytes(packet.bth.opcode, packet.payload.size());
}

std::string to_string(const Packet& packet) {
  std::string out = print(packet.bth);
  const OpcodeInfo& info = packet.info();
  for_each_header(packet, [&](Headers bit, const auto& header) {
    if (info.has(bit)) {
      (out += ' ') += print(header);
    }
  });
  if (info.has(kAeth) && packet.aeth.kind == AckKind::kNak) {
    out += fmt::format(" ({})", to_string(packet.aeth.nak_code()));
  }
  if (info.has_payload) {
    out += fmt::format(" payload={}", packet.payload.size());
  }
  return out;
}

std::uint32_t rnr_timer_us(std::uint8_t code) { return kRnrTimerUs[code % 32]; }

std::uint8_t rnr_timer_code(std::uint32_t us) {
  const auto* const found = std::lower_bound(kRnrTimerUs.begin() + 1, kRnrTimerUs.end(), us);
  return found == kRnrTimerUs.end() ? 0 : static_cast<std::uint8_t>(found - kRnrTimerUs.begin());
}

std::optional<std::uint64_t> ack_timeout_ns(std::uint8_t code) {
  if (code % 32 == 0) {
    return std::nullopt;
  }
  return std::uint64_t{4096} << (code % 32);
}

}  // namespace softhca::wire
