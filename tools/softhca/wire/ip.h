// IPv4 and UDP as a RoCE v2 packet needs them: addresses, and the 28 bytes in front of the BTH.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
using umlx5::wqe::layout_is_valid;

inline constexpr std::uint16_t kRoceV2Port = 4791;

// IPv4 address, host byte order.
struct Ipv4 {
  std::uint32_t value = 0;

  friend bool operator==(Ipv4, Ipv4) = default;
  constexpr bool is_loopback() const { return value >> 24 == 127; }
  constexpr bool is_multicast() const { return value >> 28 == 0xe; }
};

std::string to_string(Ipv4 address);                    // "127.0.0.2"
std::optional<Ipv4> parse_ipv4(std::string_view text);  // none unless all of `text` is an address in dotted decimal

// The addresses of one direction of a flow. Ports in host byte order.
struct Flow {
  Ipv4 source{};
  Ipv4 destination{};
  std::uint16_t source_port = kRoceV2Port;
  std::uint16_t destination_port = kRoceV2Port;
  std::uint16_t identification = 0;  // of the IPv4 header
};

// RFC 791 without options.
struct Ipv4Header {
  std::uint8_t version = 4;
  std::uint8_t header_words = 5;
  std::uint8_t traffic_class = 0;  // type of service: DSCP and ECN
  std::uint16_t total_bytes = 0;   // this header and all that follows
  std::uint16_t identification = 0;
  bool dont_fragment = true;
  std::uint16_t fragment_offset = 0;
  std::uint8_t hop_limit = 64;  // TTL
  std::uint8_t protocol = 17;   // UDP
  std::uint16_t checksum = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;

  static constexpr std::string_view kName = "ipv4";
  static constexpr std::size_t kBytes = 20;
  static constexpr auto kFields = Fields{Field{"version", &Ipv4Header::version, bits(0, 31, 28)},
                                         Field{"ihl", &Ipv4Header::header_words, bits(0, 27, 24)},
                                         Field{"tos", &Ipv4Header::traffic_class, bits(0, 23, 16)},
                                         Field{"length", &Ipv4Header::total_bytes, bits(0, 15, 0)},
                                         Field{"id", &Ipv4Header::identification, bits(4, 31, 16)},
                                         Field{"df", &Ipv4Header::dont_fragment, bits(4, 14, 14)},
                                         Field{"fragment", &Ipv4Header::fragment_offset, bits(4, 12, 0)},
                                         Field{"ttl", &Ipv4Header::hop_limit, bits(8, 31, 24)},
                                         Field{"protocol", &Ipv4Header::protocol, bits(8, 23, 16)},
                                         Field{"checksum", &Ipv4Header::checksum, bits(8, 15, 0)},
                                         Field{"source", &Ipv4Header::source, bytes(12, 4)},
                                         Field{"destination", &Ipv4Header::destination, bytes(16, 4)}};
};
static_assert(layout_is_valid<Ipv4Header>());

// RFC 768.
struct UdpHeader {
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t total_bytes = 0;  // this header and all that follows
  std::uint16_t checksum = 0;

  static constexpr std::string_view kName = "udp";
  static constexpr std::size_t kBytes = 8;
  static constexpr auto kFields = Fields{Field{"source", &UdpHeader::source_port, bytes(0, 2)},
                                         Field{"destination", &UdpHeader::destination_port, bytes(2, 2)},
                                         Field{"length", &UdpHeader::total_bytes, bytes(4, 2)},
                                         Field{"checksum", &UdpHeader::checksum, bytes(6, 2)}};
};
static_assert(layout_is_valid<UdpHeader>());

inline constexpr std::size_t kIpUdpBytes = Ipv4Header::kBytes + UdpHeader::kBytes;

// The headers in front of `datagram_bytes` bytes of UDP payload, checksums zero. With don't-fragment and identification
// 0 they are what Linux sends from an unconnected socket that forbids fragmentation.
Ipv4Header ipv4_header(const Flow& flow, std::size_t datagram_bytes);
UdpHeader udp_header(const Flow& flow, std::size_t datagram_bytes);

// RFC 1071 checksum, to be complemented, of `data` added to `sum`; an odd last byte is taken as followed by a zero.
std::uint32_t checksum_add(std::uint32_t sum, std::span<const std::byte> data);

// The IPv4 header in front of `datagram_bytes` bytes of UDP payload, with its checksum.
std::array<std::byte, Ipv4Header::kBytes> ip_header(const Flow& flow, std::uint8_t traffic_class,
                                                    std::uint8_t hop_limit, std::size_t datagram_bytes);

// The kIpUdpBytes in front of `datagram`, with both checksums.
std::array<std::byte, kIpUdpBytes> ip_udp_headers(const Flow& flow, std::uint8_t traffic_class, std::uint8_t hop_limit,
                                                  std::span<const std::byte> datagram);

}  // namespace softhca::wire
