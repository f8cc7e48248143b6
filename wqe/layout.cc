#include "wqe/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace umlx5::wqe::internal {

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
