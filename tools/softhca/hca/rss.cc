#include "tools/softhca/hca/rss.h"

namespace softhca::hca {
namespace {

using umlx5::wqe::L3Type;

constexpr std::uint8_t kHashedIpv4 = 1 << 2, kHashedIpv6 = 2 << 2, kHashedTcp = 1 << 6, kHashedUdp = 2 << 6;

// What is hashed, in order.
class HashInput {
 public:
  void add(std::span<const std::uint8_t> source, bool has_source, std::span<const std::uint8_t> destination,
           bool has_destination, bool symmetric) {
    for (std::size_t i = 0; has_source && i < source.size(); ++i) {
      push(symmetric && has_destination ? source[i] | destination[i] : source[i]);
    }
    for (std::size_t i = 0; has_destination && i < destination.size(); ++i) {
      push(symmetric && has_source ? source[i] ^ destination[i] : destination[i]);
    }
  }
  std::span<const std::uint8_t> bytes() const { return std::span(bytes_).first(size_); }

 private:
  void push(int byte) { bytes_[size_++] = static_cast<std::uint8_t>(byte); }

  std::array<std::uint8_t, 36> bytes_{};
  std::size_t size_ = 0;
};

std::array<std::uint8_t, 2> big_endian(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port)};
}

}  // namespace

std::uint32_t toeplitz(const ToeplitzKey& key, std::span<const std::uint8_t> input) {
  std::uint32_t hash = 0;
  // The 32 bits of the key that belong to the input's next bit, and the byte that follows them.
  std::uint64_t window = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    window = window << 8 | key[i];
  }
  for (std::size_t i = 0; i < input.size(); ++i) {
    window = window << 8 | (i + 4 < key.size() ? key[i + 4] : 0);
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((input[i] >> (7 - bit) & 1) != 0) {
        hash ^= static_cast<std::uint32_t>(window >> (8 - bit));
      }
    }
  }
  return hash;
}

FrameHash hash_frame(const ToeplitzKey& key, bool symmetric, const HashFields& fields, const Frame& frame) {
  HashInput input;
  std::uint8_t type = 0;
  const auto& headers = frame.headers;
  if ((fields.source_ip || fields.destination_ip) && frame.l3_type == (fields.ipv6 ? L3Type::kIpv6 : L3Type::kIpv4)) {
    const std::size_t skipped = fields.ipv6 ? 0 : 12;
    input.add(std::span(headers.src_ip).subspan(skipped), fields.source_ip, std::span(headers.dst_ip).subspan(skipped),
              fields.destination_ip, symmetric);
    type |= fields.ipv6 ? kHashedIpv6 : kHashedIpv4;
  }
  const bool is_udp = frame.l4_type == L4Type::kUdp;
  if ((fields.source_port || fields.destination_port) && frame.l4_type != L4Type::kNone && is_udp == fields.udp) {
    input.add(big_endian(is_udp ? headers.udp_sport : headers.tcp_sport), fields.source_port,
              big_endian(is_udp ? headers.udp_dport : headers.tcp_dport), fields.destination_port, symmetric);
    type |= is_udp ? kHashedUdp : kHashedTcp;
  }
  return {toeplitz(key, input.bytes()), type};
}

}  // namespace softhca::hca
