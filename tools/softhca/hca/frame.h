// Ethernet frames of raw packet queues: what is in them, and what a device does to them on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tools/softhca/wire/ip.h"
#include "wqe/cqe.h"
#include "wqe/prm/flow.h"

namespace softhca::hca {

inline constexpr std::size_t kEthernetHeaderBytes = 14, kVlanTagBytes = 4;
inline constexpr std::size_t kMaxFrameBytes = 4096 + kEthernetHeaderBytes + 2 * kVlanTagBytes;
inline constexpr std::size_t kMaxLargeSendBytes = 1 << 16;

// cqe.l4_hdr_type: device.h CQE_L4_HDR_TYPE_*.
enum class L4Type : std::uint8_t { kNone = 0, kTcpNoAck = 1, kUdp = 2, kTcpAckNoData = 3, kTcpAckAndData = 4 };

// A frame taken apart. Offsets are from its first byte, 0: not there. A header that the frame's end cuts off, or that
// is a later fragment's, is not there.
struct Frame {
  umlx5::wqe::prm::MatchHeaders headers;
  std::size_t l3_offset = 0, l4_offset = 0, inner_offset = 0;
  std::size_t l3_end = 0;  // by the IP header's length; what follows is padding
  umlx5::wqe::L3Type l3_type = umlx5::wqe::L3Type::kNone;
  L4Type l4_type = L4Type::kNone;
  bool has_vlan = false;
  std::uint16_t vlan = 0;  // TCI
  bool l3_ok = false;      // an IPv4 header whose checksum is right, or IPv6
  bool l4_ok = false;      // TCP or UDP whose checksum is right, or UDP over IPv4 without

  bool is_multicast() const { return (headers.dmac[0] & 1) != 0; }
};

// None for fewer bytes than an Ethernet header.
std::optional<Frame> parse_frame(std::span<const std::byte> bytes);

// The soft device that a MAC address belongs to; none for all others. ::02:00:a.b.c.d stands for IPv4 address a.b.c.d.
std::optional<wire::Ipv4> station_of(std::span<const std::byte, 6> mac);

// Checksum offload: writes the IPv4 header's checksum, the TCP or UDP checksum, if asked and there.
void write_checksums(std::span<std::byte> frame, bool l3, bool l4);

// Behind the MAC addresses, in front of other tags; and the outermost one away again.
void insert_vlan(std::vector<std::byte>& frame, std::uint16_t tci);
void strip_vlan(std::vector<std::byte>& frame);

// Large send: cuts what follows `header_bytes` into pieces of `mss_bytes`, each behind the header with its lengths,
// IPv4 identification, TCP sequence number and flags as that piece's. False, and nothing given, if the header has no
// TCP header that it ends with.
bool segment_frame(std::span<const std::byte> message, std::size_t header_bytes, std::size_t mss_bytes,
                   const std::function<void(std::vector<std::byte>&)>& give);

// The ones' complement sum of the bytes behind the Ethernet header: what CQEs carry as checksum.
std::uint16_t sum_of_payload(const Frame& frame, std::span<const std::byte> bytes);

}  // namespace softhca::hca
