// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
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

/// Whether the text is a number of at most 15 digits, as 12, -3.5 or 0.25, of which `value` is what `parse_number`
/// gives, in half of its time: its digits and the power of ten are exact in double, so that their quotient is rounded
/// once.
///
/// Source: W. D. Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990.
[[nodiscard]] inline auto parse_short(std::string_view text, double& value) -> bool {
  constexpr std::size_t most_digits = 15;
  constexpr std::array<double, most_digits + 1> powers{1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                       1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  auto const is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  auto const is_short = text.size() <= most_digits + 1;
  if (!is_short) return false;
  std::int64_t digits = 0;
  auto point = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const digit = static_cast<unsigned char>(text[i] - '0');
    if (digit < 10) {
      digits = 10 * digits + digit;
    } else if (text[i] == '.' && point == text.size()) {
      point = i;
    } else {
      return false;
    }
  }
  auto const decimals = point < text.size() ? text.size() - point - 1 : 0;
  auto const count = point + decimals;
  if (count == 0 || count > most_digits) return false;
  auto const number = static_cast<double>(digits) / powers[decimals];
  value = is_negative ? -number : number;
  return true;
}

/// The same for float, by way of double: to round twice gives another number than to round once only where the double
/// lies half way between two floats. So short a number is within float's range, or 0.
[[nodiscard]] inline auto parse_short(std::string_view text, float& value) -> bool {
  constexpr int dropped_bits = std::numeric_limits<double>::digits - std::numeric_limits<float>::digits;
  constexpr auto dropped = (std::uint64_t{1} << dropped_bits) - 1;
  double wide{};
  if (!parse_short(text, wide)) return false;
  auto const is_half_way = (std::bit_cast<std::uint64_t>(wide) & dropped) == (dropped + 1) / 2;
  value = static_cast<float>(wide);
  return !is_half_way;
}

/// As `parse_number`, but that a number is 0 which is too small for T, and that false stands for both problems.
template <std::floating_point T>
[[nodiscard]] auto parse_float(std::string_view text, T& value) -> bool {
  if (parse_short(text, value)) return true;
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
