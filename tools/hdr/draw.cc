#include "tools/hdr/draw.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace umlx5::tools {
namespace {

constexpr unsigned kMaxRows = 16;
constexpr unsigned kMinColumns = 60;
// "  1.23 us - 1.45 us |" before the bar; " 123456789  p50 p99 p99.9" after it.
constexpr unsigned kLabelColumns = 23, kCountColumns = 11, kMarkColumns = 15;

struct Row {
  std::uint64_t low = 0, high = 0, count = 0;
  std::string marks;
};

// Cuts [min, max] into rows whose ends grow by a constant factor, but never into rows narrower than 1 ns.
std::vector<Row> cut(const Histogram& histogram) {
  const double low = std::max<double>(1.0, static_cast<double>(histogram.min()));
  const double high = std::max<double>(low, static_cast<double>(histogram.max()));
  std::vector<Row> rows;
  std::uint64_t from = histogram.min();
  for (unsigned i = 1; i <= kMaxRows && from <= histogram.max(); ++i) {
    const double edge = low * std::pow(high / low, static_cast<double>(i) / kMaxRows);
    const std::uint64_t to = i == kMaxRows ? histogram.max() : static_cast<std::uint64_t>(edge);
    if (to >= from) {
      rows.push_back({from, to, 0, {}});
      from = to + 1;
    }
  }
  return rows;
}

Row& row_of(std::vector<Row>& rows, std::uint64_t value) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return value <= row.high; });
  return it == rows.end() ? rows.back() : *it;
}

std::string bar(std::uint64_t count, std::uint64_t largest, unsigned columns, bool unicode) {
  if (count == 0) {
    return std::string(columns, ' ');
  }
  // A single value still shows; the largest count fills the line.
  const double part = std::log2(1.0 + static_cast<double>(count)) / std::log2(1.0 + static_cast<double>(largest));
  const auto eighths = std::max(1u, static_cast<unsigned>(std::lround(part * columns * 8)));
  std::string text;
  unsigned used = 0;
  if (unicode) {
    static constexpr std::array<std::string_view, 8> kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    for (; used < eighths / 8; ++used) {
      text += "█";
    }
    if (eighths % 8 != 0) {
      text += kParts[eighths % 8];
      ++used;
    }
  } else {
    used = std::clamp((eighths + 4) / 8, 1u, columns);
    text.assign(used, '#');
  }
  return text.append(columns - used, ' ');
}

std::string describe_row(const Row& row, std::uint64_t largest, unsigned bar_columns, bool unicode) {
  std::string line =
      fmt::format("{:>9} - {:>9} {}{}{:>{}}", format_duration(row.low), format_duration(row.high), unicode ? "│" : "|",
                  bar(row.count, largest, bar_columns, unicode), row.count, kCountColumns);
  if (!row.marks.empty()) {
    line += " " + row.marks;
  }
  return line + "\n";
}

}  // namespace

DrawOptions draw_options_for(int fd) {
  DrawOptions options;
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
    options.columns = std::min<unsigned>(size.ws_col, 120);
  }
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      const std::string_view locale(value);
      options.unicode = locale.ends_with("UTF-8") || locale.ends_with("utf8");
      break;
    }
  }
  return options;
}

std::string format_duration(std::uint64_t nanoseconds) {
  static constexpr std::array<std::string_view, 4> kUnits = {"ns", "us", "ms", "s"};
  if (nanoseconds < 1000) {
    return fmt::format("{} ns", nanoseconds);
  }
  double value = static_cast<double>(nanoseconds);
  std::size_t unit = 0;
  // 999.5 would print as 1000.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string draw(const Histogram& histogram, const DrawOptions& options) {
  if (histogram.count() == 0) {
    return {};
  }
  std::vector<Row> rows = cut(histogram);
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    row_of(rows, std::min(bucket.high, histogram.max())).count += bucket.count;
  }
  for (const auto& [percent, name] : {std::pair{50.0, "p50"}, {99.0, "p99"}, {99.9, "p99.9"}}) {
    std::string& marks = row_of(rows, histogram.percentile(percent)).marks;
    marks += marks.empty() ? name : fmt::format(" {}", name);
  }
  const std::uint64_t largest =
      std::max_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.count < b.count; })->count;
  const unsigned columns = std::max(options.columns, kMinColumns);
  const unsigned bar_columns = columns - kLabelColumns - kCountColumns - kMarkColumns;
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t empty = i;
    while (empty < rows.size() && rows[empty].count == 0) {
      ++empty;
    }
    if (empty - i >= 3) {  // a long gap is one line
      text += fmt::format("{:>11}\n", options.unicode ? "⋮" : ":");
      i = empty;
    }
    text += describe_row(rows[i], largest, bar_columns, options.unicode);
  }
  return text;
}

}  // namespace umlx5::tools
