// AES-XTS (IEEE 1619) of the bytes that pass through a memory key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

// Both AES keys, data key first: 32 or 64 bytes.
struct XtsKey {
  std::array<std::byte, 64> bytes{};
  std::size_t used_bytes = 0;  // 32: AES-128, 64: AES-256
};

// Number of a data unit, little-endian as the standard has it.
using XtsTweak = std::array<std::uint8_t, 16>;
// `tweak` plus `units`, over all 128 bits.
XtsTweak advanced(const XtsTweak& tweak, std::uint64_t units);

enum class XtsOperation : std::uint8_t { kEncrypt, kDecrypt };

// Transforms `data` in place, in data units of `unit_bytes` (at least 16) of which the first has `tweak` and each next
// one the next number. The last one may be shorter, but not shorter than 16 bytes. False if it is, or the key is none
// that AES-XTS takes (both halves equal); nothing is then promised about the data.
bool transform(const XtsKey& key, XtsOperation operation, XtsTweak tweak, std::size_t unit_bytes,
               std::span<std::byte> data);

}  // namespace softhca
