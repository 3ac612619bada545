// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain::detail {

/// Looks for a minimum of a function between two ends, by golden sections and parabolas. It asks for one point after
/// the other, so that many searches can go on side by side:
///
///     BoundedMinimum search{-2, 2};
///     while (!search.is_done()) search.take(function(search.point()));
///
/// Source: R. P. Brent, "Algorithms for Minimization without Derivatives", Prentice-Hall, 1973: chapter 5, localmin.
class BoundedMinimum {
 public:
  /// Both ends finite, the first below the second.
  BoundedMinimum(double low, double high) noexcept;

  [[nodiscard]] auto is_done() const noexcept -> bool { return is_done_; }

  /// Where the function is asked for next.
  [[nodiscard]] auto point() const noexcept -> double { return point_; }

  /// The function's value at `point()`: no NaN; infinity where it is not to be.
  void take(double value) noexcept;

  /// The point of the smallest value so far.
  [[nodiscard]] auto best() const noexcept -> double { return best_.at; }

 private:
  struct Sample {
    double at = 0;
    double value = 0;
  };

  void narrow(Sample sample) noexcept;
  void choose_point() noexcept;

  double low_;
  double high_;
  double point_;
  Sample best_{};
  Sample second_{};         // the second best
  Sample third_{};          // the one that was second before
  double step_ = 0;         // the last one
  double step_before_ = 0;  // the one before the last
  int taken_ = 0;
  bool is_done_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/bounded_minimum-inl.hpp>
#endif
