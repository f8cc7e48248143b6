// Block signatures once more, bit by bit after their definitions, to hold the device's against.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "driver/mkey_config.h"

namespace umlx5::testing {

// CRC-16/T10-DIF.
constexpr std::uint16_t t10_crc(std::span<const std::byte> data, std::uint16_t crc) {
  for (const std::byte byte : data) {
    for (int bit = 7; bit >= 0; --bit) {
      const bool top = ((crc >> 15) ^ (std::to_integer<unsigned>(byte) >> bit & 1)) != 0;
      crc = static_cast<std::uint16_t>(crc << 1 ^ (top ? 0x8bb7 : 0));
    }
  }
  return crc;
}

// RFC 1071, of an even number of bytes.
constexpr std::uint16_t ip_checksum(std::span<const std::byte> data, std::uint32_t sum) {
  for (std::size_t i = 0; i + 1 < data.size(); i += 2) {
    sum += std::to_integer<std::uint32_t>(data[i]) << 8 | std::to_integer<std::uint32_t>(data[i + 1]);
  }
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<std::uint16_t>(~sum);
}

// A reflected CRC of `bits` bits that is inverted at the end.
constexpr std::uint64_t reflected_crc(std::span<const std::byte> data, std::uint64_t polynomial, unsigned bits,
                                      std::uint64_t crc) {
  for (const std::byte byte : data) {
    crc ^= std::to_integer<std::uint64_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
    }
  }
  return ~crc & (bits == 64 ? ~std::uint64_t{0} : 0xffffffff);
}
constexpr std::uint64_t crc_of(CrcType type, std::span<const std::byte> data, std::uint64_t seed) {
  return type == CrcType::kCrc32    ? reflected_crc(data, 0xedb88320, 32, seed)
         : type == CrcType::kCrc32c ? reflected_crc(data, 0x82f63b78, 32, seed)
                                    : reflected_crc(data, 0x9a6c9329ac4bc9b5, 64, seed);
}

// The check values of the RevEng catalogue, and RFC 1071's example.
inline constexpr auto kCheckMessage = [] {
  std::array<std::byte, 9> message{};
  std::ranges::transform(std::string_view("123456789"), message.begin(), [](char c) { return std::byte(c); });
  return message;
}();
static_assert(t10_crc(kCheckMessage, 0) == 0xd0db);
static_assert(crc_of(CrcType::kCrc32, kCheckMessage, 0xffffffff) == 0xcbf43926);
static_assert(crc_of(CrcType::kCrc32c, kCheckMessage, 0xffffffff) == 0xe3069283);
static_assert(crc_of(CrcType::kCrc64Xp10, kCheckMessage, ~std::uint64_t{0}) == 0xae8b14860a799888);
inline constexpr std::array<std::byte, 8> kChecksumMessage{std::byte{0x00}, std::byte{0x01}, std::byte{0xf2},
                                                           std::byte{0x03}, std::byte{0xf4}, std::byte{0xf5},
                                                           std::byte{0xf6}, std::byte{0xf7}};
static_assert(ip_checksum(kChecksumMessage, 0) == 0x220d);

constexpr std::size_t block_bytes(BlockSize size) {
  constexpr std::size_t kBytes[] = {512, 520, 4048, 4096, 4160};  // mlx5dv_block_size
  return kBytes[static_cast<unsigned>(size)];
}
constexpr std::size_t signature_bytes(const SignatureDomain& domain) {
  const auto* const crc = std::get_if<CrcSignature>(&domain.signature);
  return crc == nullptr || crc->type == CrcType::kCrc64Xp10 ? 8 : 4;
}

// What follows block `number` of a key: T10-DIF big-endian, CRCs little-endian.
constexpr std::vector<std::byte> signature_of(const SignatureDomain& domain, std::span<const std::byte> block,
                                              std::size_t number) {
  std::vector<std::byte> out;
  if (const auto* const crc = std::get_if<CrcSignature>(&domain.signature)) {
    std::uint64_t value = crc_of(crc->type, block, crc->seed);
    for (std::size_t i = 0; i < signature_bytes(domain); ++i, value >>= 8) {
      out.push_back(static_cast<std::byte>(value));
    }
    return out;
  }
  const T10Dif& dif = std::get<T10Dif>(domain.signature);
  const std::uint64_t guard =
      dif.guard == GuardType::kCrc ? t10_crc(block, dif.background) : ip_checksum(block, dif.background);
  const std::uint64_t reference = static_cast<std::uint32_t>(
      dif.reference_tag + (dif.increment_reference_tag ? static_cast<std::uint32_t>(number) : 0));
  const std::uint64_t value = guard << 48 | std::uint64_t{dif.application_tag} << 32 | reference;
  for (int shift = 56; shift >= 0; shift -= 8) {
    out.push_back(static_cast<std::byte>(value >> shift));
  }
  return out;
}

}  // namespace umlx5::testing
