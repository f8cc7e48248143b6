#include "tools/softhca/hca/frame.h"

#include <algorithm>
#include <array>

namespace softhca::hca {
namespace {

using umlx5::wqe::L3Type;

constexpr std::uint16_t kCustomerTag = 0x8100, kServiceTag = 0x88a8;  // IEEE 802.1Q
constexpr std::uint16_t kEthertypeIpv4 = 0x0800, kEthertypeIpv6 = 0x86dd;
constexpr std::uint8_t kTcp = 6, kUdp = 17;
constexpr std::size_t kEthertypeOffset = 12;
constexpr std::size_t kIpv4Bytes = 20, kIpv6Bytes = 40, kTcpBytes = 20, kUdpBytes = 8;
constexpr std::size_t kTcpChecksumOffset = 16, kUdpChecksumOffset = 6, kIpv4ChecksumOffset = 10;
constexpr std::uint8_t kTcpFin = 0x01, kTcpPush = 0x08, kTcpAck = 0x10, kTcpCwr = 0x80;
constexpr std::uint16_t kVxlanPort = 4789;
constexpr std::size_t kVxlanBytes = 8;

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t offset) {
  return std::to_integer<std::uint8_t>(bytes[offset]);
}
std::uint16_t load16(std::span<const std::byte> bytes, std::size_t offset) {
  return static_cast<std::uint16_t>(byte_at(bytes, offset) << 8 | byte_at(bytes, offset + 1));
}
std::uint32_t load32(std::span<const std::byte> bytes, std::size_t offset) {
  return std::uint32_t{load16(bytes, offset)} << 16 | load16(bytes, offset + 2);
}
void store16(std::span<std::byte> bytes, std::size_t offset, std::uint16_t value) {
  bytes[offset] = static_cast<std::byte>(value >> 8);
  bytes[offset + 1] = static_cast<std::byte>(value);
}
void store32(std::span<std::byte> bytes, std::size_t offset, std::uint32_t value) {
  store16(bytes, offset, static_cast<std::uint16_t>(value >> 16));
  store16(bytes, offset + 2, static_cast<std::uint16_t>(value));
}

// RFC 1071: the sum of the 16-bit words, folded.
std::uint32_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += load16(bytes, i);
  }
  if (bytes.size() % 2 != 0) {
    sum += static_cast<unsigned>(byte_at(bytes, bytes.size() - 1)) << 8;
  }
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint32_t>(sum);
}
std::uint16_t fold(std::uint32_t sum) {
  while (sum > 0xffff) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(sum);
}

// Of the TCP or UDP header and all behind it, with the pseudo header; 0xffff if the checksum in it is right.
std::uint16_t sum_of_l4(const Frame& frame, std::span<const std::byte> bytes) {
  const std::size_t l4_bytes = frame.l3_end - frame.l4_offset;
  const bool is_ipv4 = frame.l3_type == L3Type::kIpv4;
  const auto addresses = bytes.subspan(frame.l3_offset + (is_ipv4 ? 12 : 8), is_ipv4 ? 8 : 32);
  return fold(sum_of(addresses) + frame.headers.ip_protocol + static_cast<std::uint32_t>(l4_bytes >> 16) +
              static_cast<std::uint32_t>(l4_bytes & 0xffff) + sum_of(bytes.subspan(frame.l4_offset, l4_bytes)));
}

void parse_tcp(std::span<const std::byte> bytes, Frame& frame) {
  const auto l4 = bytes.subspan(frame.l4_offset);
  frame.headers.tcp_sport = load16(l4, 0);
  frame.headers.tcp_dport = load16(l4, 2);
  frame.headers.tcp_flags = load16(l4, 12) & 0x1ff;
  const std::size_t header_bytes = (byte_at(l4, 12) >> 4) * std::size_t{4};
  const bool has_data = frame.l4_offset + header_bytes < frame.l3_end;
  frame.l4_type = (frame.headers.tcp_flags & kTcpAck) == 0 ? L4Type::kTcpNoAck
                  : has_data                               ? L4Type::kTcpAckAndData
                                                           : L4Type::kTcpAckNoData;
  frame.l4_ok = sum_of_l4(frame, bytes) == 0xffff;
}

void parse_udp(std::span<const std::byte> bytes, Frame& frame) {
  const auto l4 = bytes.subspan(frame.l4_offset);
  frame.headers.udp_sport = load16(l4, 0);
  frame.headers.udp_dport = load16(l4, 2);
  frame.l4_type = L4Type::kUdp;
  const bool has_none = load16(l4, kUdpChecksumOffset) == 0 && frame.l3_type == L3Type::kIpv4;
  frame.l4_ok = has_none || sum_of_l4(frame, bytes) == 0xffff;
  if (frame.headers.udp_dport == kVxlanPort && l4.size() >= kUdpBytes + kVxlanBytes + kEthernetHeaderBytes) {
    frame.inner_offset = frame.l4_offset + kUdpBytes + kVxlanBytes;
  }
}

void parse_l4(std::span<const std::byte> bytes, std::size_t offset, Frame& frame) {
  const std::uint8_t protocol = frame.headers.ip_protocol;
  const std::size_t least = protocol == kTcp ? kTcpBytes : kUdpBytes;
  if ((protocol != kTcp && protocol != kUdp) || offset + least > frame.l3_end) {
    return;
  }
  frame.l4_offset = offset;
  protocol == kTcp ? parse_tcp(bytes, frame) : parse_udp(bytes, frame);
}

void parse_ipv4(std::span<const std::byte> bytes, Frame& frame) {
  const auto l3 = bytes.subspan(frame.l3_offset);
  const std::size_t header_bytes = l3.empty() ? 0 : (byte_at(l3, 0) & 0xf) * std::size_t{4};
  if (l3.size() < kIpv4Bytes || byte_at(l3, 0) >> 4 != 4 || header_bytes < kIpv4Bytes || header_bytes > l3.size()) {
    frame.l3_offset = 0;
    return;
  }
  auto& headers = frame.headers;
  frame.l3_type = L3Type::kIpv4;
  frame.l3_end = frame.l3_offset + std::min<std::size_t>(std::max<std::size_t>(load16(l3, 2), header_bytes), l3.size());
  frame.l3_ok = sum_of(l3.first(header_bytes)) == 0xffff;
  headers.ip_version = 4;
  headers.ip_dscp = byte_at(l3, 1) >> 2;
  headers.ip_ecn = byte_at(l3, 1) & 3;
  headers.ttl_hoplimit = byte_at(l3, 8);
  headers.ip_protocol = byte_at(l3, 9);
  headers.frag = (load16(l3, 6) & 0x3fff) != 0;  // more to come, or not the first
  for (std::size_t i = 0; i < 4; ++i) {
    headers.src_ip[12 + i] = byte_at(l3, 12 + i);
    headers.dst_ip[12 + i] = byte_at(l3, 16 + i);
  }
  if (!headers.frag) {
    parse_l4(bytes, frame.l3_offset + header_bytes, frame);
  }
}

void parse_ipv6(std::span<const std::byte> bytes, Frame& frame) {
  const auto l3 = bytes.subspan(frame.l3_offset);
  if (l3.size() < kIpv6Bytes || byte_at(l3, 0) >> 4 != 6) {
    frame.l3_offset = 0;
    return;
  }
  auto& headers = frame.headers;
  frame.l3_type = L3Type::kIpv6;
  frame.l3_end = frame.l3_offset + std::min<std::size_t>(kIpv6Bytes + load16(l3, 4), l3.size());
  frame.l3_ok = true;
  headers.ip_version = 6;
  const auto traffic_class = static_cast<std::uint8_t>(load16(l3, 0) >> 4);
  headers.ip_dscp = traffic_class >> 2;
  headers.ip_ecn = traffic_class & 3;
  headers.ip_protocol = byte_at(l3, 6);
  headers.ttl_hoplimit = byte_at(l3, 7);
  for (std::size_t i = 0; i < 16; ++i) {
    headers.src_ip[i] = byte_at(l3, 8 + i);
    headers.dst_ip[i] = byte_at(l3, 24 + i);
  }
  parse_l4(bytes, frame.l3_offset + kIpv6Bytes, frame);
}

std::size_t checksum_offset(const Frame& frame) {
  return frame.l4_offset + (frame.l4_type == L4Type::kUdp ? kUdpChecksumOffset : kTcpChecksumOffset);
}

}  // namespace

std::optional<Frame> parse_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kEthernetHeaderBytes) {
    return std::nullopt;
  }
  Frame frame;
  auto& headers = frame.headers;
  for (std::size_t i = 0; i < 6; ++i) {
    headers.dmac[i] = byte_at(bytes, i);
    headers.smac[i] = byte_at(bytes, 6 + i);
  }
  std::size_t at = kEthertypeOffset;
  headers.ethertype = load16(bytes, at);
  while ((headers.ethertype == kCustomerTag || headers.ethertype == kServiceTag) &&
         bytes.size() >= at + kVlanTagBytes + 2) {
    if (!frame.has_vlan) {
      frame.has_vlan = true;
      frame.vlan = load16(bytes, at + 2);
      headers.cvlan_tag = headers.ethertype == kCustomerTag;
      headers.svlan_tag = headers.ethertype == kServiceTag;
      headers.first_prio = static_cast<std::uint8_t>(frame.vlan >> 13);
      headers.first_cfi = (frame.vlan >> 12 & 1) != 0;
      headers.first_vid = frame.vlan & 0xfff;
    }
    at += kVlanTagBytes;
    headers.ethertype = load16(bytes, at);
  }
  frame.l3_offset = at + 2;
  if (headers.ethertype == kEthertypeIpv4) {
    parse_ipv4(bytes, frame);
  } else if (headers.ethertype == kEthertypeIpv6) {
    parse_ipv6(bytes, frame);
  } else {
    frame.l3_offset = 0;
  }
  return frame;
}

std::optional<wire::Ipv4> station_of(std::span<const std::byte, 6> mac) {
  const std::uint32_t address = load32(mac, 2);
  return load16(mac, 0) == 0x0200 && address != 0 ? std::optional(wire::Ipv4{address}) : std::nullopt;
}

void write_checksums(std::span<std::byte> bytes, bool l3, bool l4) {
  const auto frame = parse_frame(bytes);
  if (!frame) {
    return;
  }
  if (l3 && frame->l3_type == L3Type::kIpv4) {
    const auto header = bytes.subspan(frame->l3_offset, (byte_at(bytes, frame->l3_offset) & 0xf) * std::size_t{4});
    store16(header, kIpv4ChecksumOffset, 0);
    store16(header, kIpv4ChecksumOffset, static_cast<std::uint16_t>(~sum_of(header)));
  }
  if (l4 && frame->l4_offset != 0) {
    const std::size_t at = checksum_offset(*frame);
    store16(bytes, at, 0);
    const auto checksum = static_cast<std::uint16_t>(~sum_of_l4(*frame, bytes));
    const bool means_none = checksum == 0 && frame->l4_type == L4Type::kUdp;  // RFC 768
    store16(bytes, at, means_none ? std::uint16_t{0xffff} : checksum);
  }
}

void insert_vlan(std::vector<std::byte>& frame, std::uint16_t tci) {
  std::array<std::byte, kVlanTagBytes> tag{};
  store16(tag, 0, kCustomerTag);
  store16(tag, 2, tci);
  frame.insert(frame.begin() + kEthertypeOffset, tag.begin(), tag.end());
}

void strip_vlan(std::vector<std::byte>& frame) {
  frame.erase(frame.begin() + kEthertypeOffset, frame.begin() + kEthertypeOffset + kVlanTagBytes);
}

bool segment_frame(std::span<const std::byte> message, std::size_t header_bytes, std::size_t mss_bytes,
                   const std::function<void(std::vector<std::byte>&)>& give) {
  const auto header = message.first(std::min(header_bytes, message.size()));
  const auto frame = parse_frame(header);
  // The header's own lengths are not set yet: its end is the TCP header's.
  const bool is_tcp = frame && frame->l3_offset != 0 && frame->headers.ip_protocol == kTcp;
  const std::size_t l4_offset = !is_tcp ? 0
                                : frame->l3_type == L3Type::kIpv4
                                    ? frame->l3_offset + (byte_at(header, frame->l3_offset) & 0xf) * std::size_t{4}
                                    : frame->l3_offset + kIpv6Bytes;
  if (!is_tcp || mss_bytes == 0 || l4_offset + kTcpBytes > header.size() ||
      l4_offset + (byte_at(header, l4_offset + 12) >> 4) * std::size_t{4} != header.size()) {
    return false;
  }
  const std::uint32_t sequence = load32(header, l4_offset + 4);
  const std::uint8_t flags = byte_at(header, l4_offset + 13);
  std::vector<std::byte> piece;
  std::size_t at = header_bytes;
  for (std::uint16_t index = 0; at < message.size(); ++index) {
    const std::size_t bytes = std::min(mss_bytes, message.size() - at);
    const bool is_last = at + bytes == message.size();
    piece.assign(header.begin(), header.end());
    piece.insert(piece.end(), message.begin() + static_cast<std::ptrdiff_t>(at),
                 message.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    const auto l3_bytes = static_cast<std::uint16_t>(piece.size() - frame->l3_offset);
    if (frame->l3_type == L3Type::kIpv4) {
      store16(piece, frame->l3_offset + 2, l3_bytes);
      store16(piece, frame->l3_offset + 4, static_cast<std::uint16_t>(load16(header, frame->l3_offset + 4) + index));
    } else {
      store16(piece, frame->l3_offset + 4, static_cast<std::uint16_t>(l3_bytes - kIpv6Bytes));
    }
    store32(piece, l4_offset + 4, sequence + static_cast<std::uint32_t>(at - header_bytes));
    std::uint8_t own_flags = is_last ? flags : static_cast<std::uint8_t>(flags & ~(kTcpFin | kTcpPush));
    own_flags = index == 0 ? own_flags : static_cast<std::uint8_t>(own_flags & ~kTcpCwr);
    piece[l4_offset + 13] = std::byte{own_flags};
    give(piece);
    at += bytes;
  }
  return true;
}

std::uint16_t sum_of_payload(const Frame& frame, std::span<const std::byte> bytes) {
  const std::size_t at = kEthernetHeaderBytes + (frame.has_vlan ? kVlanTagBytes : 0);
  return static_cast<std::uint16_t>(sum_of(bytes.subspan(std::min(at, bytes.size()))));
}

}  // namespace softhca::hca
