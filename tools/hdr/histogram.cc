#include "tools/hdr/histogram.h"

#include <algorithm>
#include <cmath>

namespace umlx5::tools {

Histogram::Histogram() : counts_(index_of(kHighest) + 1) {}

void Histogram::record(std::uint64_t nanoseconds) {
  if (nanoseconds > kHighest) {
    nanoseconds = kHighest;
    ++clamped_;
  }
  ++counts_[index_of(nanoseconds)];
  ++count_;
  min_ = std::min(min_, nanoseconds);
  max_ = std::max(max_, nanoseconds);
  sum_ += nanoseconds;
  sum_of_squares_ += static_cast<Wide>(nanoseconds) * nanoseconds;
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
  count_ += other.count_;
  clamped_ += other.clamped_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

double Histogram::mean() const {
  return count_ == 0 ? 0.0 : static_cast<double>(static_cast<long double>(sum_) / count_);
}

double Histogram::stdev() const {
  if (count_ == 0) {
    return 0.0;
  }
  // n * sum(x^2) - sum(x)^2 in exact integers would need more than 128 bits: the difference is taken per value.
  const long double mean = static_cast<long double>(sum_) / count_;
  const long double variance = static_cast<long double>(sum_of_squares_) / count_ - mean * mean;
  return static_cast<double>(std::sqrt(std::max(variance, 0.0L)));
}

std::uint64_t Histogram::percentile(double percent) const {
  if (count_ == 0) {
    return 0;
  }
  const double exact_rank = std::clamp(percent, 0.0, 100.0) * static_cast<double>(count_) / 100.0;
  // 99.9 has no exact double: a rank that is whole but for that must not become the next one.
  const auto rank = static_cast<std::uint64_t>(std::ceil(exact_rank - exact_rank * 1e-12));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= std::max<std::uint64_t>(rank, 1)) {
      return std::min(bounds_of(i).high, max_);
    }
  }
  return max_;
}

std::vector<Histogram::Bucket> Histogram::buckets() const {
  std::vector<Bucket> used;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] != 0) {
      used.push_back(bounds_of(i));
      used.back().count = counts_[i];
    }
  }
  return used;
}

}  // namespace umlx5::tools
