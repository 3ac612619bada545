// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/bounded_minimum.hpp>

namespace raytrain::detail {

/// Looks for the power of numbers that makes a normal distribution of them most likely. It knows them by their
/// logarithms, of which it asks the moments of one power after the other:
///
///     while (!search.is_done()) search.take(moments of search.tried(log), of each logarithm);
///
/// Numbers of one sign are divided by their geometric mean before: that changes the likelihood by a constant alone, and
/// the variance of their powers is no difference of numbers that are nearly equal then.
class PowerSearch {
 public:
  /// `mean` of the logarithms; `is_signed`: those of `signed_log`, else plain ones.
  PowerSearch(ValueRange const& logs, double mean, bool is_signed) noexcept;

  [[nodiscard]] auto is_done() const noexcept -> bool { return is_constant_ || search_.is_done(); }

  [[nodiscard]] auto tried(double log) const noexcept -> double;

  /// The moments of all that `tried` has made. Does nothing once it is done.
  void take(ValueMoments const& moments) noexcept;

  /// 1 for numbers that are all the same.
  [[nodiscard]] auto best() const noexcept -> double;

 private:
  [[nodiscard]] static auto search_between(ValueRange const& logs, double mean, bool has_both_signs) noexcept
      -> BoundedMinimum;

  bool is_constant_;
  bool has_both_signs_;  // numbers of one sign are all taken as positive ones
  bool is_mirrored_;     // which they are not
  double mean_;
  BoundedMinimum search_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/power_search-inl.hpp>
#endif
