#include "wqe/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace umlx5::wqe::internal {

std::uint64_t load_bits_at(const std::byte* from, std::size_t offset_bits, std::size_t width_bits) {
  const std::size_t first = offset_bits / 8;
  const std::size_t last = (offset_bits + width_bits - 1) / 8;
  unsigned __int128 word = 0;
  for (std::size_t i = first; i <= last; ++i) {
    word = (word << 8) | static_cast<std::uint8_t>(from[i]);
  }
  return static_cast<std::uint64_t>(word >> ((last + 1) * 8 - offset_bits - width_bits)) & low_mask(width_bits);
}

void store_bits_at(std::byte* to, std::size_t offset_bits, std::size_t width_bits, std::uint64_t value) {
  const std::size_t first = offset_bits / 8;
  const std::size_t last = (offset_bits + width_bits - 1) / 8;
  const std::size_t shift = (last + 1) * 8 - offset_bits - width_bits;
  const unsigned __int128 mask = static_cast<unsigned __int128>(low_mask(width_bits)) << shift;
  const unsigned __int128 bits = static_cast<unsigned __int128>(value) << shift & mask;
  for (std::size_t i = first; i <= last; ++i) {
    const std::size_t down = (last - i) * 8;
    to[i] = (to[i] & ~static_cast<std::byte>(mask >> down & 0xff)) | static_cast<std::byte>(bits >> down & 0xff);
  }
}

void append_scalar(std::string& out, std::string_view name, std::uint64_t value, std::size_t width_bits,
                   Format format) {
  if (value == 0) {
    return;
  }
  if (width_bits == 1) {
    fmt::format_to(std::back_inserter(out), " {}", name);
  } else if (format == Format::kDecimal) {
    fmt::format_to(std::back_inserter(out), " {}={}", name, value);
  } else {
    fmt::format_to(std::back_inserter(out), " {}={:#x}", name, value);
  }
}

void append_named(std::string& out, std::string_view name, std::string_view value_name, std::uint64_t value) {
  fmt::format_to(std::back_inserter(out), " {}={}({:#x})", name, value_name, value);
}

void append_bytes(std::string& out, std::string_view name, const std::uint8_t* data, std::size_t count) {
  if (std::all_of(data, data + count, [](std::uint8_t byte) { return byte == 0; })) {
    return;
  }
  fmt::format_to(std::back_inserter(out), " {}={:02x}", name, fmt::join(data, data + count, ""));
}

}  // namespace umlx5::wqe::internal
