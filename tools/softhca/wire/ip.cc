#include "tools/softhca/wire/ip.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace softhca::wire {
namespace {

constexpr std::uint32_t kUdpProtocol = 17;

std::uint16_t folded(std::uint32_t sum) {
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

std::string to_string(Ipv4 address) {
  const std::uint32_t value = address.value;
  return fmt::format("{}.{}.{}.{}", value >> 24, value >> 16 & 0xff, value >> 8 & 0xff, value & 0xff);
}

std::optional<Ipv4> parse_ipv4(std::string_view text) {
  in_addr parsed{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &parsed) != 1) {
    return std::nullopt;
  }
  return Ipv4{ntohl(parsed.s_addr)};
}

Ipv4Header ipv4_header(const Flow& flow, std::size_t datagram_bytes) {
  return {.total_bytes = static_cast<std::uint16_t>(kIpUdpBytes + datagram_bytes),
          .identification = flow.identification,
          .source = flow.source.value,
          .destination = flow.destination.value};
}

UdpHeader udp_header(const Flow& flow, std::size_t datagram_bytes) {
  return {.source_port = flow.source_port,
          .destination_port = flow.destination_port,
          .total_bytes = static_cast<std::uint16_t>(UdpHeader::kBytes + datagram_bytes)};
}

std::uint32_t checksum_add(std::uint32_t sum, std::span<const std::byte> data) {
  std::uint64_t total = sum;
  for (std::size_t i = 0; i + 1 < data.size(); i += 2) {
    total += static_cast<std::uint32_t>(data[i]) << 8 | static_cast<std::uint32_t>(data[i + 1]);
  }
  if (data.size() % 2 != 0) {
    total += static_cast<std::uint32_t>(data.back()) << 8;
  }
  while (total >> 16 != 0) {
    total = (total & 0xffff) + (total >> 16);
  }
  return static_cast<std::uint32_t>(total);
}

std::array<std::byte, Ipv4Header::kBytes> ip_header(const Flow& flow, std::uint8_t traffic_class,
                                                    std::uint8_t hop_limit, std::size_t datagram_bytes) {
  std::array<std::byte, Ipv4Header::kBytes> out;
  Ipv4Header ip = ipv4_header(flow, datagram_bytes);
  ip.traffic_class = traffic_class;
  ip.hop_limit = hop_limit;
  umlx5::wqe::store(out.data(), ip);
  ip.checksum = folded(checksum_add(0, out));
  umlx5::wqe::store(out.data(), ip);
  return out;
}

std::array<std::byte, kIpUdpBytes> ip_udp_headers(const Flow& flow, std::uint8_t traffic_class, std::uint8_t hop_limit,
                                                  std::span<const std::byte> datagram) {
  std::array<std::byte, kIpUdpBytes> out;
  const std::span<std::byte> ip_bytes = std::span(out).first(Ipv4Header::kBytes);
  const std::span<std::byte> udp_bytes = std::span(out).subspan(Ipv4Header::kBytes);

  const auto ip = ip_header(flow, traffic_class, hop_limit, datagram.size());
  std::copy(ip.begin(), ip.end(), ip_bytes.begin());

  UdpHeader udp = udp_header(flow, datagram.size());
  umlx5::wqe::store(udp_bytes.data(), udp);
  // The pseudo-header: both addresses, the protocol and the UDP length.
  std::uint32_t sum = checksum_add(kUdpProtocol + std::uint32_t{udp.total_bytes}, ip_bytes.last(8));
  sum = checksum_add(sum, udp_bytes);
  udp.checksum = folded(checksum_add(sum, datagram));
  if (udp.checksum == 0) {
    udp.checksum = 0xffff;  // 0 on the wire says "no checksum"
  }
  umlx5::wqe::store(udp_bytes.data(), udp);
  return out;
}

}  // namespace softhca::wire
