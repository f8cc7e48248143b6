// Histogram of durations with a bounded relative error and a fixed size (high dynamic range).
//
// Values below 2048 have a bucket each; above, every doubling of the value is cut into 1024 buckets, so that a bucket's
// width is less than a thousandth of its values. Recording is a shift, an addition and an increment; nothing allocates.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace umlx5::tools {

// Not thread-safe: one histogram for each thread, merged at the end.
class Histogram {
 public:
  // Nanoseconds; 100 seconds. What is longer is recorded as this and counted in clamped().
  static constexpr std::uint64_t kHighest = 100'000'000'000;

  // The values that share a count: low <= value <= high.
  struct Bucket {
    std::uint64_t low = 0, high = 0, count = 0;
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };

  Histogram();

  void record(std::uint64_t nanoseconds);
  void merge(const Histogram& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t clamped() const { return clamped_; }

  // Exact. All of these, and percentile(), are 0 for an empty histogram.
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double mean() const;
  double stdev() const;  // of the whole population (divided by n)

  // The smallest value that at least `percent` (0..100) of the values do not exceed, rounded up to the end of its
  // bucket and never above max().
  std::uint64_t percentile(double percent) const;

  // The buckets that have a count, ascending.
  std::vector<Bucket> buckets() const;

 private:
  static constexpr unsigned kSubBits = 10;  // 1024 buckets for each doubling
  static constexpr std::uint64_t kLinear = std::uint64_t{2} << kSubBits;

  static constexpr std::size_t index_of(std::uint64_t value) {
    if (value < kLinear) {
      return static_cast<std::size_t>(value);
    }
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(value >> shift);
  }
  static constexpr Bucket bounds_of(std::size_t index) {
    if (index < kLinear) {
      return {index, index, 0};
    }
    const std::size_t shift = (index >> kSubBits) - 1;
    const std::uint64_t low = ((index & (kLinear / 2 - 1)) + kLinear / 2) << shift;
    return {low, low + (std::uint64_t{1} << shift) - 1, 0};
  }

  // The sums are exact: 128 bits hold 10^16 squares of kHighest.
  __extension__ using Wide = unsigned __int128;

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, clamped_ = 0;
  std::uint64_t min_ = UINT64_MAX, max_ = 0;
  Wide sum_ = 0, sum_of_squares_ = 0;
};

}  // namespace umlx5::tools
