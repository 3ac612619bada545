// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <raytrain/core/inline.hpp>
#include <raytrain/preprocess/detail/bounded_minimum.hpp>

namespace raytrain::detail {

inline constexpr auto golden_section = 2 - std::numbers::phi;  // the smaller part
inline constexpr auto minimum_tolerance = 1.48e-8;             // as SciPy's
inline constexpr auto most_minimum_points = 500;

RAYTRAIN_INLINE BoundedMinimum::BoundedMinimum(double low, double high) noexcept
    : low_{low}, high_{high}, point_{low + golden_section * (high - low)} {}

RAYTRAIN_INLINE void BoundedMinimum::take(double value) noexcept {
  ++taken_;
  Sample const sample{point_, value};
  if (taken_ == 1) {
    best_ = second_ = third_ = sample;
  } else {
    narrow(sample);
  }
  choose_point();
}

RAYTRAIN_INLINE void BoundedMinimum::narrow(Sample sample) noexcept {
  if (sample.value <= best_.value) {
    (sample.at >= best_.at ? low_ : high_) = best_.at;
    third_ = second_;
    second_ = best_;
    best_ = sample;
    return;
  }
  (sample.at < best_.at ? low_ : high_) = sample.at;
  if (sample.value <= second_.value || second_.at == best_.at) {
    third_ = second_;
    second_ = sample;
  } else if (sample.value <= third_.value || third_.at == best_.at || third_.at == second_.at) {
    third_ = sample;
  }
}

RAYTRAIN_INLINE void BoundedMinimum::choose_point() noexcept {
  auto const middle = low_ + (high_ - low_) / 2;
  auto const smallest_step =
      std::sqrt(std::numeric_limits<double>::epsilon()) * std::abs(best_.at) + minimum_tolerance / 3;
  is_done_ = taken_ >= most_minimum_points || std::abs(best_.at - middle) <= 2 * smallest_step - (high_ - low_) / 2;
  if (is_done_) return;
  auto is_parabola = false;
  if (std::abs(step_before_) > smallest_step) {  // the vertex lies numerator / denominator beside the best point
    auto const to_second = (best_.at - second_.at) * (best_.value - third_.value);
    auto const to_third = (best_.at - third_.at) * (best_.value - second_.value);
    auto numerator = (best_.at - third_.at) * to_third - (best_.at - second_.at) * to_second;
    auto const twice = 2 * (to_third - to_second);
    if (twice > 0) numerator = -numerator;
    auto const denominator = std::abs(twice);
    is_parabola = std::abs(numerator) < std::abs(denominator * step_before_ / 2) &&
                  numerator > denominator * (low_ - best_.at) && numerator < denominator * (high_ - best_.at);
    if (is_parabola) {
      step_before_ = step_;
      step_ = numerator / denominator;
      auto const vertex = best_.at + step_;
      if (std::min(vertex - low_, high_ - vertex) < 2 * smallest_step) {
        step_ = best_.at <= middle ? smallest_step : -smallest_step;
      }
    }
  }
  if (!is_parabola) {
    step_before_ = best_.at >= middle ? low_ - best_.at : high_ - best_.at;
    step_ = golden_section * step_before_;
  }
  point_ = best_.at + std::copysign(std::max(std::abs(step_), smallest_step), step_);
}

}  // namespace raytrain::detail
