// A histogram of latencies as text for a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "tools/hdr/histogram.h"

namespace umlx5::tools {

struct DrawOptions {
  unsigned columns = 80;  // no line is longer; below 60 is taken as 60
  bool unicode = false;   // block characters (UTF-8) instead of '#'
};

// What suits the terminal behind `fd`: its width (80 if it is none, at most 120), and Unicode if the locale's
// variables (LC_ALL, LC_CTYPE, LANG) name UTF-8.
DrawOptions draw_options_for(int fd);

// Three significant digits and a unit: "512 ns", "1.23 us", "45.6 ms", "100 s".
std::string format_duration(std::uint64_t nanoseconds);

// One line for each range of latencies: the ranges grow by a constant factor, the bar's length is the logarithm of the
// count, and the lines in which p50, p99 and p99.9 lie say so. Empty for an empty histogram.
std::string draw(const Histogram& histogram, const DrawOptions& options);

}  // namespace umlx5::tools
