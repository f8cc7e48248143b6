// AES key wrap (RFC 3394, NIST SP 800-38F): how data encryption keys and credentials come to a device that takes no
// plain ones.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace softhca {

inline constexpr std::size_t kWrapBytes = 8;  // that wrapping adds
inline constexpr std::size_t kKekBytes = 32;  // AES-256

// Unwraps `wrapped`, at least 24 bytes and whole groups of 8, into `plain`, which is kWrapBytes shorter. False if it
// was not wrapped with `kek`; `plain` is then unspecified.
bool unwrap(std::span<const std::byte, kKekBytes> kek, std::span<const std::byte> wrapped, std::span<std::byte> plain);

}  // namespace softhca
