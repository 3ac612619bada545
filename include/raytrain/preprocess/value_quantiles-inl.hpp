// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/value_quantiles.hpp>

namespace raytrain {

namespace detail {

/// Radix selection. A value's key is its 64 bits, so ordered that keys sort as values do; a digit is 16 bits of it.
/// From the highest digit on, how often each one comes behind the digits that are known, the prefix, says which comes
/// next.
inline constexpr unsigned digit_bits = 16;
inline constexpr unsigned key_digits = 64 / digit_bits;
inline constexpr std::size_t digit_values = std::size_t{1} << digit_bits;

/// The key of a value; 0 and -0 have the same.
[[nodiscard]] inline auto ordered_bits(double value) noexcept -> std::uint64_t {
  constexpr auto sign = std::uint64_t{1} << 63U;
  auto const bits = std::bit_cast<std::uint64_t>(value + 0.0);
  // All bits of a negative number change, the sign alone of others: without a branch, which nobody could foresee.
  return bits ^ (static_cast<std::uint64_t>(static_cast<std::int64_t>(bits) >> 63U) | sign);
}

[[nodiscard]] inline auto from_ordered_bits(std::uint64_t bits) noexcept -> double {
  constexpr auto sign = std::uint64_t{1} << 63U;
  return std::bit_cast<double>((bits & sign) != 0 ? bits ^ sign : ~bits);
}

/// What is known of a key before its digit `digit` is, which is not the first one.
[[nodiscard]] inline auto prefix_of(std::uint64_t key, unsigned digit) noexcept -> std::uint64_t {
  return key >> (64 - digit_bits * digit);
}

[[nodiscard]] inline auto digit_of(std::uint64_t key, unsigned digit) noexcept -> std::size_t {
  return (key >> (64 - digit_bits * (digit + 1))) & (digit_values - 1);
}

/// The digits that occur, in ascending order, and how often each does.
struct DigitCounts {
  std::vector<std::uint16_t> digits{};
  std::vector<std::uint64_t> counts{};

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(digits), CEREAL_NVP(counts));
  }
};

/// `dense` has a count for each digit that there may be.
[[nodiscard]] inline auto digit_counts(std::span<std::uint64_t const> dense) -> DigitCounts {
  DigitCounts result;
  for (std::size_t digit = 0; digit < dense.size(); ++digit) {
    if (dense[digit] == 0) continue;
    result.digits.push_back(static_cast<std::uint16_t>(digit));
    result.counts.push_back(dense[digit]);
  }
  return result;
}

/// Of the first digit: NaNs alone share it with an infinity, and they are not counted.
[[nodiscard]] inline auto has_infinities(DigitCounts const& first_digits) -> bool {
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  for (auto const value : {-infinity, infinity}) {
    auto const digit = static_cast<std::uint16_t>(ordered_bits(value) >> (64 - digit_bits));
    if (std::ranges::binary_search(first_digits.digits, digit)) return true;
  }
  return false;
}

/// Between two values, as NumPy rounds it.
[[nodiscard]] inline auto interpolated(double low, double high, double share) noexcept -> double {
  if (!std::isfinite(high - low)) return low * (1 - share) + high * share;
  return share < 0.5 ? low + (high - low) * share : high - (high - low) * (1 - share);
}

/// The quantiles of the values at one place of the rows, on their way.
struct QuantileSearch {
  struct Searched {
    std::uint64_t rank;        // among those that begin with the prefix
    std::uint64_t prefix = 0;  // the digits that are known
  };

  std::uint64_t count = 0;  ///< Values.
  std::vector<Searched> searched{};
  std::vector<std::uint64_t> candidates{};  ///< This worker's keys that begin with one of the prefixes.
  bool has_all_candidates = false;          ///< Else there were too many to keep.

  /// Before the first digit is known: the two values around each quantile.
  void begin(std::uint64_t values, std::vector<double> const& at) {
    count = values;
    if (values == 0) return;
    for (auto const quantile : at) {
      auto const low = static_cast<std::uint64_t>(std::floor(quantile * static_cast<double>(values - 1)));
      searched.push_back({std::min(low, values - 1)});
      searched.push_back({std::min(low + 1, values - 1)});
    }
  }

  /// Adds to the candidates, until there are more than `most`.
  void keep(std::span<std::uint64_t const> keys, std::size_t most) {
    if (!has_all_candidates) return;
    has_all_candidates = candidates.size() + keys.size() <= most;
    if (!has_all_candidates)
      candidates = std::vector<std::uint64_t>{};  // and its memory goes
    else
      candidates.insert(candidates.end(), keys.begin(), keys.end());
  }

  /// The different ones, in ascending order.
  [[nodiscard]] auto prefixes() const -> std::vector<std::uint64_t> {
    std::vector<std::uint64_t> result;
    for (auto const& one : searched) result.push_back(one.prefix);
    std::ranges::sort(result);
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  /// Takes the next digit of each, by how often each digit comes behind each of the prefixes in all workers' values.
  void advance(std::vector<std::uint64_t> const& prefixes, std::vector<DigitCounts> const& of_prefixes) {
    for (auto& [rank, prefix] : searched) {
      auto const index = std::ranges::lower_bound(prefixes, prefix) - prefixes.begin();
      auto const& [digits, counts] = of_prefixes[static_cast<std::size_t>(index)];
      std::size_t at = 0;
      for (; rank >= counts[at]; ++at) rank -= counts[at];
      prefix = (prefix << digit_bits) | digits[at];
    }
  }

  [[nodiscard]] auto results(std::vector<double> const& at) const -> std::vector<double> {
    std::vector<double> found(at.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < at.size() && count > 0; ++i) {
      auto const place = at[i] * static_cast<double>(count - 1);
      found[i] = interpolated(from_ordered_bits(searched[2 * i].prefix), from_ordered_bits(searched[2 * i + 1].prefix),
                              place - std::floor(place));
    }
    return found;
  }
};

/// Places of a row whose values are looked at in one pass, of which the processor reads a whole cache line anyhow.
inline constexpr std::size_t places_at_once = 8;

/// Calls `work(place - first, key)` for each value at the places [first, last) of these rows that is not NaN.
template <class Work>
void for_each_key(Column const& rows, std::size_t first, std::size_t last, Work const& work) {
  auto const width = rows.row_values();
  rows.visit([&]<Element T>(std::span<T const> values) {
    for (std::size_t row = 0; row < values.size(); row += width) {
      for (auto place = first; place < last; ++place) {
        auto const value = as_double(values[row + place]);
        if (value == value) work(place - first, ordered_bits(value));
      }
    }
  });
}

/// Of each place, how often each first digit comes.
[[nodiscard]] inline auto first_digit_counts(Column const& column) -> std::vector<std::vector<DigitCounts>> {
  auto const width = column.row_values();
  std::vector<std::vector<DigitCounts>> result;
  std::vector<std::uint64_t> dense(std::min(width, places_at_once) * digit_values);
  for (std::size_t first = 0; first < width; first += places_at_once) {
    auto const last = std::min(width, first + places_at_once);
    std::ranges::fill(dense, 0);
    for_each_key(column, first, last,
                 [&](std::size_t place, std::uint64_t key) { ++dense[place * digit_values + digit_of(key, 0)]; });
    for (std::size_t place = 0; place < last - first; ++place) {
      result.push_back({digit_counts(std::span{dense}.subspan(place * digit_values, digit_values))});
    }
  }
  return result;
}

/// Gives each place the keys that begin with one of its prefixes of one digit, where they are at most so many of all.
inline void gather_candidates(Column const& column, std::size_t most_of_all, std::vector<QuantileSearch>& searches) {
  constexpr std::size_t chunk_rows = 256;
  auto const width = column.row_values();
  auto const most = most_of_all / width;
  for (std::size_t first = 0; first < width; first += places_at_once) {
    auto const last = std::min(width, first + places_at_once);
    std::vector<char> is_wanted((last - first) * digit_values);
    for (auto place = first; place < last; ++place) {
      searches[place].has_all_candidates = true;
      searches[place].candidates.reserve(std::min(most, column.rows()));
      for (auto const digit : searches[place].prefixes()) is_wanted[(place - first) * digit_values + digit] = 1;
    }
    for (std::size_t row = 0; row < column.rows(); row += chunk_rows) {
      // Each key is written, and the next one over it where it is not wanted: the processor could not foresee a branch.
      std::array<std::array<std::uint64_t, chunk_rows>, places_at_once> kept;
      std::array<std::size_t, places_at_once> counts{};
      for_each_key(column.slice(row, std::min(column.rows(), row + chunk_rows)), first, last,
                   [&](std::size_t place, std::uint64_t key) {
                     kept[place][counts[place]] = key;
                     counts[place] += static_cast<std::size_t>(is_wanted[place * digit_values + digit_of(key, 0)]);
                   });
      for (auto place = first; place < last; ++place)
        searches[place].keep(std::span{kept[place - first]}.first(counts[place - first]), most);
    }
  }
}

/// As `next_digit_counts`, of so few candidates that a count for each digit that there may be would take longer.
[[nodiscard]] inline auto few_digit_counts(std::vector<std::uint64_t> candidates,
                                           std::vector<std::uint64_t> const& prefixes, unsigned digit)
    -> std::vector<DigitCounts> {
  std::ranges::sort(candidates);
  std::vector<DigitCounts> result;
  auto key = candidates.begin();
  for (auto const prefix : prefixes) {
    auto& [digits, counts] = result.emplace_back();
    for (; key != candidates.end() && prefix_of(*key, digit) == prefix; ++key) {
      auto const next = static_cast<std::uint16_t>(digit_of(*key, digit));
      if (digits.empty() || digits.back() != next) {
        digits.push_back(next);
        counts.push_back(0);
      }
      ++counts.back();
    }
  }
  return result;
}

/// How often each digit comes behind each of the prefixes of the place. Candidates that begin with none of them go.
[[nodiscard]] inline auto next_digit_counts(Column const& column, std::size_t place, QuantileSearch& search,
                                            unsigned digit) -> std::vector<DigitCounts> {
  auto const prefixes = search.prefixes();
  auto const index_of = [&](std::uint64_t key) {
    auto const found = std::ranges::lower_bound(prefixes, prefix_of(key, digit));
    auto const is_there = found != prefixes.end() && *found == prefix_of(key, digit);
    return is_there ? std::optional{static_cast<std::size_t>(found - prefixes.begin())} : std::nullopt;
  };
  if (digit > 1) std::erase_if(search.candidates, [&](std::uint64_t key) { return !index_of(key); });
  constexpr std::size_t few = digit_values / 16;
  if (search.has_all_candidates && search.candidates.size() < few) {
    return few_digit_counts(search.candidates, prefixes, digit);
  }
  std::vector<std::uint64_t> dense(prefixes.size() * digit_values);
  auto const count = [&](std::uint64_t key) {
    if (auto const index = index_of(key)) ++dense[*index * digit_values + digit_of(key, digit)];
  };
  if (search.has_all_candidates) {
    std::ranges::for_each(search.candidates, count);
  } else {
    for_each_key(column, place, place + 1, [&](std::size_t, std::uint64_t key) { count(key); });
  }
  std::vector<DigitCounts> result;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    result.push_back(digit_counts(std::span{dense}.subspan(i * digit_values, digit_values)));
  }
  return result;
}

/// All workers' counts behind the prefix `i` of a place.
[[nodiscard]] inline auto sum_of_workers(std::vector<std::vector<std::vector<DigitCounts>>> const& of_all,
                                         std::size_t place, std::size_t i) -> DigitCounts {
  if (of_all.size() == 1) return of_all[0][place][i];
  std::vector<std::uint64_t> dense(digit_values);
  for (auto const& of_worker : of_all) {
    auto const& [digits, counts] = of_worker[place][i];
    for (std::size_t at = 0; at < digits.size(); ++at) dense[digits[at]] += counts[at];
  }
  return digit_counts(dense);
}

/// Each takes up to 1 MiB while it is looked for.
inline constexpr std::size_t most_quantiles_at_once = 64;

RAYTRAIN_INLINE auto find_quantiles(FitRows const& rows, std::string const& column, std::vector<double> const& at,
                                    std::string const& attempted, std::size_t most_kept)
    -> std::vector<std::vector<double>> {
  auto const& values = numbers_of(rows.dataset(), column, attempted);
  std::vector<QuantileSearch> searches(values.row_values());
  auto const first_digits = rows.all_gather(first_digit_counts(values));
  for (std::size_t place = 0; place < searches.size(); ++place) {
    auto const counts = sum_of_workers(first_digits, place, 0);
    if (has_infinities(counts)) refuse_infinity(column, attempted);
    searches[place].begin(std::reduce(counts.counts.begin(), counts.counts.end()), at);
    searches[place].advance({0}, {counts});
  }
  gather_candidates(values, most_kept, searches);
  for (unsigned digit = 1; digit < key_digits; ++digit) {
    std::vector<std::vector<DigitCounts>> mine;
    for (std::size_t place = 0; place < searches.size(); ++place) {
      mine.push_back(next_digit_counts(values, place, searches[place], digit));
    }
    auto const of_all = rows.all_gather(mine);
    for (std::size_t place = 0; place < searches.size(); ++place) {
      auto const prefixes = searches[place].prefixes();
      std::vector<DigitCounts> counts;
      for (std::size_t i = 0; i < prefixes.size(); ++i) counts.push_back(sum_of_workers(of_all, place, i));
      searches[place].advance(prefixes, counts);
    }
  }
  std::vector<std::vector<double>> quantiles;
  for (auto const& search : searches) quantiles.push_back(search.results(at));
  return quantiles;
}

}  // namespace detail

RAYTRAIN_INLINE auto value_quantiles(FitRows const& rows, std::string const& column, std::vector<double> const& at,
                                     std::string const& attempted) -> std::vector<std::vector<double>> {
  for (auto const quantile : at) {
    if (quantile >= 0 && quantile <= 1) continue;
    throw Error{Errc::invalid_call, attempted, fmt::format("the quantile {} is not from 0 to 1", quantile),
                "write 0.5 for the median"};
  }
  std::vector<std::vector<double>> all;
  for (std::size_t first = 0; first == 0 || first < at.size(); first += detail::most_quantiles_at_once) {
    auto const last = std::min(at.size(), first + detail::most_quantiles_at_once);
    auto const some = detail::find_quantiles(
        rows, column, {at.begin() + static_cast<std::ptrdiff_t>(first), at.begin() + static_cast<std::ptrdiff_t>(last)},
        attempted);
    all.resize(some.size());
    for (std::size_t place = 0; place < some.size(); ++place) {
      all[place].insert(all[place].end(), some[place].begin(), some[place].end());
    }
  }
  return all;
}

}  // namespace raytrain
