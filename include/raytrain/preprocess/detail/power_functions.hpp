// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

namespace raytrain::detail {

/// (x^power - 1) / power of log x, also where the power is 0 or nearly so.
[[nodiscard]] inline auto power_of_log(double log, double power) noexcept -> double {
  return std::abs(power) < std::numeric_limits<double>::epsilon() ? log : std::expm1(power * log) / power;
}

[[nodiscard]] inline auto log_of_power(double value, double power) noexcept -> double {
  return std::abs(power) < std::numeric_limits<double>::epsilon() ? value : std::log1p(power * value) / power;
}

/// Powers of numbers below 0 too, which mirror those above it.
[[nodiscard]] inline auto power_of_signed_log(double log, double power) noexcept -> double {
  return log < 0 ? -power_of_log(-log, 2 - power) : power_of_log(log, power);
}

/// Logarithm of 1 + |x|, with the sign of x.
[[nodiscard]] inline auto signed_log(double value) noexcept -> double {
  return std::copysign(std::log1p(std::abs(value)), value);
}

}  // namespace raytrain::detail
