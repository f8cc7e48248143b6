#include "tools/hdr/draw.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace umlx5::tools {
namespace {

// Columns on the screen: bytes that do not continue a UTF-8 sequence.
std::size_t width(const std::string& line) {
  std::size_t columns = 0;
  for (const char c : line) {
    columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  return columns;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    all.push_back(line);
  }
  return all;
}

Histogram sample() {
  Histogram histogram;
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> tail(8.0, 0.5);
  for (int i = 0; i < 10'000; ++i) {
    histogram.record(static_cast<std::uint64_t>(tail(random)));
  }
  histogram.record(90'000'000'000);
  return histogram;
}

TEST(FormatDuration, ThreeDigitsAndAUnit) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(999), "999 ns");
  EXPECT_EQ(format_duration(1'000), "1.00 us");
  EXPECT_EQ(format_duration(12'345), "12.3 us");
  EXPECT_EQ(format_duration(999'499), "999 us");
  EXPECT_EQ(format_duration(999'500), "1.00 ms");
  EXPECT_EQ(format_duration(9'996), "10.0 us");
  EXPECT_EQ(format_duration(123'456'789), "123 ms");
  EXPECT_EQ(format_duration(100'000'000'000), "100 s");
}

TEST(Draw, NothingForNothing) { EXPECT_EQ(draw(Histogram(), {}), ""); }

TEST(Draw, OneValueIsOneFullLine) {
  Histogram histogram;
  histogram.record(1'500);
  EXPECT_EQ(draw(histogram, {.columns = 80}),
            "  1.50 us -   1.50 us |###############################          1 p50 p99 p99.9\n");
}

TEST(Draw, NoLineIsWiderThanTheTerminal) {
  const Histogram histogram = sample();
  for (const unsigned columns : {60u, 80u, 100u, 120u}) {
    for (const bool unicode : {false, true}) {
      for (const std::string& line : lines(draw(histogram, {columns, unicode}))) {
        EXPECT_LE(width(line), columns) << line;
      }
    }
  }
}

TEST(Draw, EachPercentileIsMarkedOnceAndCountsAddUp) {
  const Histogram histogram = sample();
  const std::string text = draw(histogram, {});
  std::uint64_t total = 0;
  for (const std::string& line : lines(text)) {
    if (const std::size_t end = line.find_last_of("#|"); end != std::string::npos) {
      total += std::stoull(line.substr(end + 1));
    }
  }
  EXPECT_EQ(total, histogram.count());
  std::istringstream words(text);
  std::vector<std::string> marks;
  for (std::string word; words >> word;) {
    if (word.starts_with('p')) {
      marks.push_back(word);
    }
  }
  EXPECT_EQ(marks, (std::vector<std::string>{"p50", "p99", "p99.9"})) << text;
}

TEST(Draw, ALongGapIsOneLine) {
  Histogram histogram;
  histogram.record(1'000);
  histogram.record(1'000'000'000);
  const std::vector<std::string> all = lines(draw(histogram, {}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1], "          :");
}

TEST(Draw, BarsGrowWithTheLogarithm) {
  Histogram histogram;
  for (int i = 0; i < 1023; ++i) {
    histogram.record(1'000);
  }
  for (int i = 0; i < 31; ++i) {
    histogram.record(1'000'000);
  }
  const std::vector<std::string> all = lines(draw(histogram, {.columns = 80}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NE(all[0].find("|" + std::string(31, '#') + " "), std::string::npos) << all[0];  // log2(1024): all 31 columns
  EXPECT_NE(all[2].find("|" + std::string(16, '#') + " "), std::string::npos) << all[2];  // log2(32): half
}

}  // namespace
}  // namespace umlx5::tools
