// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace raytrain::detail {

/// Mean, standard deviation and sum of numbers that come one by one, without what cancels out where these are large
/// beside their differences.
///
/// Source: B. P. Welford, "Note on a method for calculating corrected sums of squares and products", Technometrics
///         4(3), 1962; A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", ZAMM 54,
///         1974.
class Moments {
 public:
  void add(double value) noexcept {
    ++count_;
    auto const difference = value - mean_;
    mean_ += difference / static_cast<double>(count_);
    squares_ += difference * (value - mean_);
    auto const sum = sum_ + value;
    rest_ += std::abs(sum_) >= std::abs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
    sum_ = sum;
  }

  [[nodiscard]] auto count() const noexcept -> std::uint64_t { return count_; }

  /// NaN of no numbers.
  [[nodiscard]] auto mean() const noexcept -> double {
    if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
    if (std::isfinite(sum())) return sum() / static_cast<double>(count_);
    return std::isnan(mean_) ? sum_ : mean_;  // which is an infinity where all infinities have its sign
  }

  /// Of a sample, by the number of values less 1; NaN of fewer than two numbers, and where one is infinite.
  [[nodiscard]] auto standard_deviation() const noexcept -> double {
    if (count_ < 2) return std::numeric_limits<double>::quiet_NaN();
    return std::sqrt(squares_ / static_cast<double>(count_ - 1));
  }

  [[nodiscard]] auto sum() const noexcept -> double { return std::isfinite(rest_) ? sum_ + rest_ : sum_; }

 private:
  std::uint64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // of the differences to the mean
  double sum_ = 0;
  double rest_ = 0;  // what the sum lost by rounding
};

}  // namespace raytrain::detail
