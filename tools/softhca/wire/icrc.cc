#include "tools/softhca/wire/icrc.h"

#include <isa-l/crc.h>

#include <array>
#include <cstring>

#include "tools/softhca/wire/packet.h"

namespace softhca::wire {
namespace {

constexpr std::size_t kLrhBytes = 8;
constexpr std::size_t kHeadBytes = kLrhBytes + kIpUdpBytes + Bth::kBytes;
constexpr std::size_t kMaskedBthByte = 4;

// ISA-L takes and gives the complemented remainder, as zlib does, so that calls chain.
std::uint32_t crc32(std::uint32_t seed, const std::byte* data, std::size_t count) {
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(data), count);
}

}  // namespace

std::uint32_t icrc(const Flow& flow, std::span<const std::byte> packet) {
  std::array<std::byte, kHeadBytes> head;
  std::memset(head.data(), 0xff, kLrhBytes);

  Ipv4Header ip = ipv4_header(flow, packet.size() + kIcrcBytes);
  ip.traffic_class = 0xff;
  ip.hop_limit = 0xff;
  ip.checksum = 0xffff;
  umlx5::wqe::store(head.data() + kLrhBytes, ip);

  UdpHeader udp = udp_header(flow, packet.size() + kIcrcBytes);
  udp.checksum = 0xffff;
  umlx5::wqe::store(head.data() + kLrhBytes + Ipv4Header::kBytes, udp);

  std::byte* const bth = head.data() + kLrhBytes + kIpUdpBytes;
  std::memcpy(bth, packet.data(), Bth::kBytes);
  bth[kMaskedBthByte] = std::byte{0xff};

  const std::uint32_t seed = crc32(0, head.data(), head.size());
  return crc32(seed, packet.data() + Bth::kBytes, packet.size() - Bth::kBytes);
}

void store_icrc(std::byte* to, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) {
    to[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

std::uint32_t load_icrc(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  }
  return value;
}

}  // namespace softhca::wire
