#include "tools/hdr/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace umlx5::tools {
namespace {

// The oracle: the value of the nearest rank in a sorted array, rank and count as whole numbers of thousandths.
std::uint64_t exact_percentile(const std::vector<std::uint64_t>& sorted, std::uint64_t per_100000) {
  const std::uint64_t rank = (per_100000 * sorted.size() + 99'999) / 100'000;
  return sorted[std::max<std::uint64_t>(rank, 1) - 1];
}

void expect_matches(std::vector<std::uint64_t> values) {
  Histogram histogram;
  long double sum = 0;
  for (const std::uint64_t value : values) {
    histogram.record(value);
    sum += value;
  }
  std::sort(values.begin(), values.end());
  const long double mean = sum / values.size();
  long double squares = 0;
  for (const std::uint64_t value : values) {
    squares += (value - mean) * (value - mean);
  }
  EXPECT_EQ(histogram.count(), values.size());
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_NEAR(histogram.mean(), static_cast<double>(mean), static_cast<double>(mean) * 1e-12);
  const auto stdev = static_cast<double>(std::sqrt(squares / values.size()));
  EXPECT_NEAR(histogram.stdev(), stdev, stdev * 1e-6 + 1e-6);
  for (const std::uint64_t per_100000 :
       {0u, 1u, 1'000u, 50'000u, 90'000u, 99'000u, 99'900u, 99'990u, 99'999u, 100'000u}) {
    const std::uint64_t exact = exact_percentile(values, per_100000);
    const std::uint64_t got = histogram.percentile(static_cast<double>(per_100000) / 1000.0);
    EXPECT_GE(got, exact) << per_100000;
    EXPECT_LE(got - exact, exact / 1000) << per_100000 << " exact " << exact << " got " << got;
  }
}

TEST(Histogram, EmptyIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.mean(), 0.0);
  EXPECT_EQ(histogram.stdev(), 0.0);
  EXPECT_EQ(histogram.percentile(50), 0u);
  EXPECT_TRUE(histogram.buckets().empty());
}

TEST(Histogram, OneToThousandIsExact) {
  Histogram histogram;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    histogram.record(i);
  }
  EXPECT_EQ(histogram.percentile(0), 1u);
  EXPECT_EQ(histogram.percentile(50), 500u);
  EXPECT_EQ(histogram.percentile(99), 990u);
  EXPECT_EQ(histogram.percentile(99.9), 999u);
  EXPECT_EQ(histogram.percentile(99.91), 1000u);
  EXPECT_EQ(histogram.percentile(100), 1000u);
  EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
  EXPECT_NEAR(histogram.stdev(), 288.6749902572095, 1e-9);  // sqrt((1000^2 - 1) / 12)
}

TEST(Histogram, MatchesSortedArrayOverTheWholeRange) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(0.0, 11.0);
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 50'000; ++i) {
    values.push_back(static_cast<std::uint64_t>(std::pow(10.0, exponent(random))));
  }
  expect_matches(values);
}

TEST(Histogram, MatchesSortedArrayOfALatencyLikeTail) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> tail(8.0, 0.7);
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 12'345; ++i) {
    values.push_back(static_cast<std::uint64_t>(tail(random)));
  }
  expect_matches(values);
}

TEST(Histogram, MatchesSortedArrayOfFewValues) {
  expect_matches({5});
  expect_matches({5, 5, 5});
  expect_matches({1, 1'000'000'000});
  expect_matches({2047, 2048, 2049, 4095, 4096, 4097});
}

TEST(Histogram, EveryPowerOfTwoFallsInABucketThatHoldsIt) {
  for (unsigned bit = 0; bit < 37; ++bit) {
    for (const std::uint64_t value :
         {(std::uint64_t{1} << bit) - 1, std::uint64_t{1} << bit, (std::uint64_t{1} << bit) + 1}) {
      if (value > Histogram::kHighest) {
        continue;
      }
      Histogram histogram;
      histogram.record(value);
      const std::vector<Histogram::Bucket> buckets = histogram.buckets();
      ASSERT_EQ(buckets.size(), 1u);
      EXPECT_LE(buckets[0].low, value);
      EXPECT_GE(buckets[0].high, value);
      EXPECT_LE(buckets[0].high - buckets[0].low, value / 1000);
      EXPECT_EQ(buckets[0].count, 1u);
    }
  }
}

TEST(Histogram, NeighbouringBucketsTouch) {
  Histogram histogram;
  for (std::uint64_t value = 0; value < 70'000; ++value) {
    histogram.record(value);
  }
  std::uint64_t next = 0, count = 0;
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    EXPECT_EQ(bucket.low, next);
    next = bucket.high + 1;
    count += bucket.count;
  }
  EXPECT_EQ(count, 70'000u);
}

TEST(Histogram, LongerThanTheHighestIsClampedAndCounted) {
  Histogram histogram;
  histogram.record(Histogram::kHighest);
  EXPECT_EQ(histogram.clamped(), 0u);
  histogram.record(Histogram::kHighest + 1);
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.clamped(), 2u);
  EXPECT_EQ(histogram.max(), Histogram::kHighest);
  EXPECT_EQ(histogram.count(), 3u);
}

TEST(Histogram, MergeIsRecordingInOne) {
  Histogram left, right, both;
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random() % 1'000'000'000;
    (i % 3 == 0 ? left : right).record(value);
    both.record(value);
  }
  left.merge(right);
  EXPECT_EQ(left.count(), both.count());
  EXPECT_EQ(left.min(), both.min());
  EXPECT_EQ(left.max(), both.max());
  EXPECT_EQ(left.mean(), both.mean());
  EXPECT_EQ(left.stdev(), both.stdev());
  EXPECT_EQ(left.buckets(), both.buckets());
  left.merge(Histogram());
  EXPECT_EQ(left.min(), both.min());
}

}  // namespace
}  // namespace umlx5::tools
