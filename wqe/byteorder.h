// Integers that are big-endian in memory, as types: the device's words cannot be mixed up with the host's.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace umlx5::wqe {

// Has the size and alignment of T; its bytes in memory are the big-endian form of value().
template <std::unsigned_integral T>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  explicit constexpr BigEndian(T host) : raw_(swapped(host)) {}

  // `raw` is already in wire order: as memory holds it.
  static constexpr BigEndian from_raw(T raw) {
    BigEndian out;
    out.raw_ = raw;
    return out;
  }
  constexpr T value() const { return swapped(raw_); }
  constexpr T raw() const { return raw_; }

  friend constexpr bool operator==(BigEndian, BigEndian) = default;

 private:
  static constexpr T swapped(T value) {
    return std::endian::native == std::endian::little ? std::byteswap(value) : value;
  }

  T raw_ = 0;
};

using Be16 = BigEndian<std::uint16_t>;
using Be32 = BigEndian<std::uint32_t>;
using Be64 = BigEndian<std::uint64_t>;
static_assert(sizeof(Be16) == 2 && sizeof(Be32) == 4 && sizeof(Be64) == 8);

}  // namespace umlx5::wqe
