#include "wqe/send_wqe.h"

#include "wqe/xrc.h"

namespace umlx5::wqe {
namespace {

using Result = std::expected<void, std::string_view>;

std::unexpected<std::string_view> reject(std::string_view reason) { return std::unexpected(reason); }

// The WQE's octowords that are not yet read.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }
  std::span<const std::byte> rest() const { return rest_; }
  bool has(std::size_t bytes) const { return rest_.size() >= bytes; }
  void skip(std::size_t bytes) { rest_ = rest_.subspan(bytes); }

  template <typename Segment>
  bool take(Segment& segment) {
    if (!has(Segment::kBytes)) {
      return false;
    }
    segment = load<Segment>(rest_.data());
    skip(Segment::kBytes);
    return true;
  }

 private:
  std::span<const std::byte> rest_;
};

Result take_address_vector(Cursor& cursor, SendWqe& wqe) {
  std::array<std::byte, AddressVector::kBytes> padded{};
  if (!cursor.has(AddressVector::kCompactBytes)) {
    return reject("DS ends before the address vector");
  }
  std::memcpy(padded.data(), cursor.rest().data(), AddressVector::kCompactBytes);
  const std::size_t wire_bytes = load<AddressVector>(padded.data()).wire_bytes();
  if (!cursor.has(wire_bytes)) {
    return reject("DS ends inside the extended address vector");
  }
  std::memcpy(padded.data(), cursor.rest().data(), wire_bytes);
  wqe.address_vector = load<AddressVector>(padded.data());
  wqe.has_address_vector = true;
  cursor.skip(wire_bytes);
  return {};
}

Result take_eth(Cursor& cursor, SendWqe& wqe) {
  if (!cursor.has(EthernetSegment::kBytes)) {
    return reject("DS ends before the Ethernet segment");
  }
  wqe.eth = load<EthernetSegment>(cursor.rest().data());
  const std::size_t wire_bytes = wqe.eth.wire_octowords() * kOctowordBytes;
  if (!cursor.has(wire_bytes)) {
    return reject("DS ends inside the Ethernet segment's inline header");
  }
  wqe.eth_inline_header = cursor.rest().subspan(EthernetSegment::kInlineOffset, wqe.eth.inlined_bytes());
  wqe.has_eth = true;
  cursor.skip(wire_bytes);
  return {};
}

Result take_transport(Cursor& cursor, Transport transport, SendWqe& wqe) {
  switch (transport) {
    case Transport::kConnected:
      return {};
    case Transport::kXrc: {
      XrcSegment xrc;
      if (!cursor.take(xrc)) {
        return reject("DS ends before the XRC segment");
      }
      wqe.xrc_srqn = xrc.srqn;
      wqe.has_xrc = true;
      return {};
    }
    case Transport::kDatagram:
    case Transport::kDynamicConnected:
      return take_address_vector(cursor, wqe);
    case Transport::kRawPacket:
      return take_eth(cursor, wqe);
  }
  return reject("unknown transport");
}

Result take_remote_address(Cursor& cursor, SendWqe& wqe) {
  if (!cursor.take(wqe.remote_address)) {
    return reject("DS ends before the remote address segment");
  }
  wqe.has_remote_address = true;
  return {};
}

Result take_plain_atomic(Cursor& cursor, SendWqe& wqe) {
  if (wqe.control.opmod != 0) {
    return reject("a plain atomic takes opmod 0");
  }
  AtomicSegment segment;
  if (!cursor.take(segment)) {
    return reject("DS ends before the atomic segment");
  }
  const bool is_swap = wqe.control.opcode == SendOpcode::kAtomicCompareSwap;
  const std::uint64_t mask = is_swap ? ~std::uint64_t{0} : 0;
  wqe.atomic = {.swap_add = segment.swap_add, .compare = segment.compare, .swap_mask = mask, .compare_mask = mask};
  return {};
}

Result take_masked_swap(Cursor& cursor, SendWqe& wqe) {
  if (wqe.control.opmod == kMaskedAtomicOpmod8Bytes) {
    MaskedCompareSwap8Segment segment;
    if (!cursor.take(segment)) {
      return reject("DS ends before the masked atomic's operands");
    }
    wqe.atomic = {8, segment.swap, segment.compare, segment.swap_mask, segment.compare_mask, 0};
    return {};
  }
  if (wqe.control.opmod == kMaskedAtomicOpmod4Bytes) {
    MaskedCompareSwap4Segment segment;
    if (!cursor.take(segment)) {
      return reject("DS ends before the masked atomic's operands");
    }
    wqe.atomic = {4, segment.swap, segment.compare, segment.swap_mask, segment.compare_mask, 0};
    return {};
  }
  return reject("a masked atomic takes opmod 8 (4-byte operands) or 9 (8-byte operands)");
}

Result take_masked_add(Cursor& cursor, SendWqe& wqe) {
  if (wqe.control.opmod == kMaskedAtomicOpmod8Bytes) {
    MaskedFetchAdd8Segment segment;
    if (!cursor.take(segment)) {
      return reject("DS ends before the masked atomic's operands");
    }
    wqe.atomic = {.operand_bytes = 8, .swap_add = segment.add, .field_boundary = segment.field_boundary};
    return {};
  }
  if (wqe.control.opmod == kMaskedAtomicOpmod4Bytes) {
    MaskedFetchAdd4Segment segment;
    if (!cursor.take(segment)) {
      return reject("DS ends before the masked atomic's operands");
    }
    wqe.atomic = {.operand_bytes = 4, .swap_add = segment.add, .field_boundary = segment.field_boundary};
    return {};
  }
  return reject("a masked atomic takes opmod 8 (4-byte operands) or 9 (8-byte operands)");
}

// One data pointer or inline segment.
Result take_data_item(Cursor& cursor, DataList& list) {
  if (!cursor.has(kOctowordBytes)) {
    return reject("the WQE is not a whole number of octowords");
  }
  const auto header = load<InlineHeader>(cursor.rest().data());
  if (!header.is_inline) {
    DataSegment segment;
    cursor.take(segment);
    list.push({segment.address, segment.lkey, segment.length_bytes(), nullptr});
    return {};
  }
  const std::size_t wire_bytes = inline_octowords(header.byte_count) * kOctowordBytes;
  if (!cursor.has(wire_bytes)) {
    return reject("DS ends inside an inline segment");
  }
  list.push({0, 0, header.byte_count, cursor.rest().data() + InlineHeader::kBytes});
  cursor.skip(wire_bytes);
  return {};
}

Result take_gather_list(Cursor& cursor, DataList& list) {
  while (!cursor.at_end()) {
    if (Result item = take_data_item(cursor, list); !item) {
      return item;
    }
  }
  return {};
}

// The list an operation's response is written to: pointers only.
Result take_scatter_list(Cursor& cursor, DataList& list) {
  while (!cursor.at_end()) {
    if (Result item = take_data_item(cursor, list); !item) {
      return item;
    }
    if (list[list.size() - 1].is_inline()) {
      return reject("inline segment where the device writes its response");
    }
  }
  return {};
}

Result take_atomic(Cursor& cursor, SendWqe& wqe) {
  if (Result remote = take_remote_address(cursor, wqe); !remote) {
    return remote;
  }
  Result operands;
  switch (wqe.control.opcode) {
    case SendOpcode::kMaskedCompareSwap:
      operands = take_masked_swap(cursor, wqe);
      break;
    case SendOpcode::kMaskedFetchAdd:
      operands = take_masked_add(cursor, wqe);
      break;
    default:
      operands = take_plain_atomic(cursor, wqe);
  }
  if (!operands) {
    return operands;
  }
  wqe.has_atomic = true;
  return take_scatter_list(cursor, wqe.data);
}

Result take_operation(Cursor& cursor, SendWqe& wqe) {
  switch (wqe.control.opcode) {
    case SendOpcode::kSend:
    case SendOpcode::kSendImmediate:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kTso:
      return take_gather_list(cursor, wqe.data);
    case SendOpcode::kRdmaWrite:
    case SendOpcode::kRdmaWriteImmediate:
      if (Result remote = take_remote_address(cursor, wqe); !remote) {
        return remote;
      }
      return take_gather_list(cursor, wqe.data);
    case SendOpcode::kRdmaRead:
      if (Result remote = take_remote_address(cursor, wqe); !remote) {
        return remote;
      }
      return take_scatter_list(cursor, wqe.data);
    default:
      return take_atomic(cursor, wqe);
  }
}

// Opcodes that are taken apart segment by segment.
bool is_transport_operation(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kSend:
    case SendOpcode::kSendImmediate:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kTso:
    case SendOpcode::kRdmaWrite:
    case SendOpcode::kRdmaWriteImmediate:
    case SendOpcode::kRdmaRead:
    case SendOpcode::kAtomicCompareSwap:
    case SendOpcode::kAtomicFetchAdd:
    case SendOpcode::kMaskedCompareSwap:
    case SendOpcode::kMaskedFetchAdd:
      return true;
    default:
      return false;
  }
}

Result parse_into(SendWqe& wqe, std::span<const std::byte> bytes, Transport transport) {
  if (bytes.size() < ControlSegment::kBytes) {
    return reject("fewer bytes than a control segment");
  }
  wqe.control = load<ControlSegment>(bytes.data());
  const std::size_t wqe_bytes = wqe.control.ds_octowords * kOctowordBytes;
  if (wqe_bytes == 0) {
    return reject("DS is 0");
  }
  if (wqe_bytes > bytes.size()) {
    return reject("DS reaches past the bytes at hand");
  }
  if (!is_known(wqe.control.opcode)) {
    return reject("unknown opcode");
  }
  Cursor cursor(bytes.subspan(ControlSegment::kBytes, wqe_bytes - ControlSegment::kBytes));
  if (!is_transport_operation(wqe.control.opcode)) {
    wqe.body = cursor.rest();
    return {};
  }
  if (wqe.control.opcode == SendOpcode::kTso && transport != Transport::kRawPacket) {
    return reject("TSO on a queue that does not send raw packets");
  }
  if (Result segment = take_transport(cursor, transport, wqe); !segment) {
    return segment;
  }
  return take_operation(cursor, wqe);
}

Result parse_receive_into(DataList& list, std::span<const std::byte> bytes, ReceivePrefix prefix) {
  Cursor cursor(bytes);
  if (prefix != ReceivePrefix::kNone) {
    if (!cursor.has(kOctowordBytes)) {
      return reject("fewer bytes than the segment before the scatter list");
    }
    cursor.skip(kOctowordBytes);
  }
  while (!cursor.at_end()) {
    if (!cursor.has(kOctowordBytes)) {
      return reject("the receive WQE is not a whole number of octowords");
    }
    if (load<InlineHeader>(cursor.rest().data()).is_inline) {
      return reject("inline segment in a scatter list");
    }
    DataSegment segment;
    cursor.take(segment);
    if (segment.is_terminator()) {
      return {};
    }
    if (!list.push({segment.address, segment.lkey, segment.length_bytes(), nullptr})) {
      return reject("more scatter entries than a WQE can have");
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::kConnected:
      return "connected";
    case Transport::kXrc:
      return "XRC";
    case Transport::kDatagram:
      return "datagram";
    case Transport::kDynamicConnected:
      return "dynamically connected";
    case Transport::kRawPacket:
      return "raw packet";
  }
  return "unknown";
}

std::expected<SendWqe, std::string_view> parse_send_wqe(std::span<const std::byte> bytes, Transport transport) {
  std::expected<SendWqe, std::string_view> result;
  if (Result parsed = parse_into(*result, bytes, transport); !parsed) {
    result = reject(parsed.error());
  }
  return result;
}

std::string_view parse_send_wqe_into(SendWqe& wqe, std::span<const std::byte> bytes, Transport transport) {
  const Result parsed = parse_into(wqe, bytes, transport);
  return parsed ? std::string_view{} : parsed.error();
}

std::expected<DataList, std::string_view> parse_receive_wqe(std::span<const std::byte> bytes, ReceivePrefix prefix) {
  std::expected<DataList, std::string_view> result;
  if (Result parsed = parse_receive_into(*result, bytes, prefix); !parsed) {
    result = reject(parsed.error());
  }
  return result;
}

}  // namespace umlx5::wqe
