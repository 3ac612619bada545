// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <string_view>
#include <system_error>

namespace raytrain::detail {

/// `value` is the number that the whole text is. Otherwise `result_out_of_range` where T cannot hold it, and
/// `invalid_argument` where it is none.
template <class T>
[[nodiscard]] auto parse_number(std::string_view text, T& value) -> std::errc {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  auto const* const last = text.data() + text.size();
  auto const [end, problem] = std::from_chars(text.data(), last, value);
  return end == last ? problem : std::errc::invalid_argument;
}

/// The same, but that a number is 0 which is too small for T, and that false stands for both problems.
template <std::floating_point T>
[[nodiscard]] auto parse_float(std::string_view text, T& value) -> bool {
  auto problem = parse_number(text, value);
  // Out of range is too large, or so small that it is 0 to this type.
  if (problem == std::errc::result_out_of_range) {
    long double wide{};
    problem = parse_number(text, wide);
    if (std::abs(wide) >= 1) return false;
    value = static_cast<T>(wide);
    if (problem == std::errc::result_out_of_range) {  // of long double, too, which tells no more than its exponent
      auto const exponent = text.find_first_of("eE");
      if (exponent == std::string_view::npos || text.substr(exponent + 1, 1) != "-") return false;
      value = text.starts_with('-') ? -T{0} : T{0};
      problem = {};
    }
  }
  return problem == std::errc{};
}

}  // namespace raytrain::detail
