// Bytes of test cases, as hexadecimal text and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wqe/layout.h"

namespace umlx5::wqe::testing_bytes {

// Groups of four bytes: "00ffff08 00123403".
inline std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i != 0 && i % 4 == 0) {
      out += ' ';
    }
    const auto value = static_cast<std::uint8_t>(bytes[i]);
    out += kDigits[value >> 4];
    out += kDigits[value & 15];
  }
  return out;
}

inline std::string hex(std::span<const std::byte> bytes, std::size_t offset, std::size_t count) {
  return hex(bytes.subspan(offset, count));
}

// The bytes of hexadecimal text; spaces are ignored.
inline std::vector<std::byte> unhex(std::string_view text) {
  std::vector<std::byte> out;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') {
      continue;
    }
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      out.push_back(static_cast<std::byte>(high << 4 | digit));
      high = -1;
    }
  }
  return out;
}

// The wire form of a segment, over bytes that were not zero before.
template <Structure T>
std::array<std::byte, T::kBytes> stored(const T& value) {
  std::array<std::byte, T::kBytes> out;
  out.fill(std::byte{0xee});
  store(out.data(), value);
  return out;
}

}  // namespace umlx5::wqe::testing_bytes
