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
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/run_vectorized.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/added_counts.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

RAYTRAIN_INLINE void ValueRange::merge(ValueRange const& other) noexcept {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

namespace detail {

/// Values that the compiler computes with side by side.
inline constexpr std::size_t statistic_lanes = 8;

/// `number`, or 0 where `value` is NaN: without a branch, which the processor cannot foresee where values are missing.
[[nodiscard, gnu::always_inline]] inline auto zero_if_missing(double value, double number) noexcept -> double {
  auto const mask = std::uint64_t{0} - static_cast<std::uint64_t>(value == value);
  return std::bit_cast<double>(mask & std::bit_cast<std::uint64_t>(number));
}

/// Sums of the differences between values and one that lies among them, of which moments are made in the end: so that
/// no mean is rounded on the way.
struct MomentSums {
  std::uint64_t count = 0;
  double shift = 0;    ///< From which the differences are.
  double sum = 0;      ///< Of the differences.
  double squares = 0;  ///< Of theirs.

  void merge(MomentSums const& other) noexcept {
    if (other.count == 0) return;
    if (count == 0) shift = other.shift;
    auto const further = other.shift - shift;
    auto const theirs = static_cast<double>(other.count);
    squares += other.squares + further * (2 * other.sum + theirs * further);
    sum += other.sum + theirs * further;
    count += other.count;
  }

  /// Not finite where a sum is not.
  [[nodiscard]] auto moments() const noexcept -> ValueMoments {
    if (count == 0) return {};
    auto const rest = sum / static_cast<double>(count);
    auto const about_mean = squares - rest * sum;
    return {count, shift + rest, about_mean < 0 ? 0 : about_mean};
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(count), CEREAL_NVP(shift), CEREAL_NVP(sum), CEREAL_NVP(squares));
  }
};

/// Adds the moments of `rows` times `lanes` values to as many `into`; a row lies `stride` values behind the one before.
/// It may read the rows up to three times.
template <std::size_t lanes, class T>
struct AddMoments {
  [[gnu::always_inline]] static void run(T const* values, std::size_t rows, std::size_t stride,
                                         MomentSums* into) noexcept {
    bool has_shifts = true;
    for (std::size_t lane = 0; lane < lanes; ++lane) has_shifts = has_shifts && into[lane].count > 0;
    if (!has_shifts) find_shifts(values, rows, stride, into);
    if (!add_complete(values, rows, stride, into)) add_others(values, rows, stride, into);
  }

 private:
  using Lanes = std::array<double, lanes>;

  /// Of lanes without values yet: the mean of those that there are here.
  [[gnu::always_inline]] static void find_shifts(T const* values, std::size_t rows, std::size_t stride,
                                                 MomentSums* into) noexcept {
    Lanes counts{};
    Lanes sums{};
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        auto const value = as_double(values[row * stride + lane]);
        counts[lane] += zero_if_missing(value, 1);
        sums[lane] += zero_if_missing(value, value);
      }
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (into[lane].count == 0) into[lane].shift = sums[lane] / std::max(counts[lane], 1.0);
    }
  }

  /// Where no value is missing; else it adds nothing and returns false.
  [[gnu::always_inline]] static auto add_complete(T const* values, std::size_t rows, std::size_t stride,
                                                  MomentSums* into) noexcept -> bool {
    Lanes shifts{};
    Lanes sums{};
    Lanes squares{};
    for (std::size_t lane = 0; lane < lanes; ++lane) shifts[lane] = into[lane].shift;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        auto const difference = as_double(values[row * stride + lane]) - shifts[lane];
        squares[lane] += difference * difference;
        sums[lane] += difference;
      }
    }
    if (!std::ranges::all_of(sums, [](double sum) { return std::isfinite(sum); })) return false;
    for (std::size_t lane = 0; lane < lanes; ++lane) add(into[lane], rows, sums[lane], squares[lane]);
    return true;
  }

  [[gnu::always_inline]] static void add_others(T const* values, std::size_t rows, std::size_t stride,
                                                MomentSums* into) noexcept {
    Lanes counts{};
    Lanes sums{};
    Lanes squares{};
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        auto const value = as_double(values[row * stride + lane]);
        auto const difference = zero_if_missing(value, value - into[lane].shift);
        counts[lane] += zero_if_missing(value, 1);
        squares[lane] += difference * difference;
        sums[lane] += difference;
      }
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      add(into[lane], static_cast<std::uint64_t>(counts[lane]), sums[lane], squares[lane]);
    }
  }

  [[gnu::always_inline]] static void add(MomentSums& into, std::uint64_t count, double sum, double squares) noexcept {
    into.count += count;
    into.sum += sum;
    into.squares += squares;
  }
};

template <std::size_t lanes, class T>
struct AddRanges {
  [[gnu::always_inline]] static void run(T const* values, std::size_t rows, std::size_t stride,
                                         ValueRange* into) noexcept {
    std::array<double, lanes> smallest{};
    std::array<double, lanes> largest{};
    smallest.fill(std::numeric_limits<double>::infinity());
    largest.fill(-std::numeric_limits<double>::infinity());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        auto const value = as_double(values[row * stride + lane]);
        smallest[lane] = value < smallest[lane] ? value : smallest[lane];
        largest[lane] = value > largest[lane] ? value : largest[lane];
      }
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) into[lane].merge({smallest[lane], largest[lane]});
  }
};

/// Adds rows of `into.size()` values, tile by tile: of so few rows at a time that they stay in the cache until their
/// last tile. Of one value a row, as many rows are taken side by side as there are lanes.
template <template <std::size_t, class> class Add, Element T, class Statistic>
void add_tiles(std::span<T const> values, std::vector<Statistic>& into) {
  constexpr auto lanes = statistic_lanes;
  auto const width = into.size();
  if (width == 1 && values.size() >= 2 * lanes) {
    std::vector<Statistic> of_lanes(lanes);
    auto const whole = values.size() / lanes * lanes;
    add_tiles<Add>(values.first(whole), of_lanes);
    for (auto const& of_lane : of_lanes) into[0].merge(of_lane);
    values = values.subspan(whole);
  }
  constexpr std::size_t chunk_bytes = std::size_t{8} << 10U;
  auto const rows = values.size() / width;
  auto const chunk = std::max<std::size_t>(chunk_bytes / (width * sizeof(T)), 32);
  for (std::size_t row = 0; row < rows; row += chunk) {
    auto const some = std::min(chunk, rows - row);
    auto const* const first = values.data() + row * width;
    std::size_t at = 0;
    for (; at + lanes <= width; at += lanes) {
      run_vectorized<Add<lanes, T>>(first + at, some, width, into.data() + at);
    }
    for (; at < width; ++at) run_vectorized<Add<1, T>>(first + at, some, width, into.data() + at);
  }
}

[[nodiscard]] RAYTRAIN_INLINE auto numbers_of(Dataset const& rows, std::string const& column,
                                              std::string const& attempted) -> Column const& {
  auto const& found = rows.column(column);
  found.check_holds_numbers(attempted);
  return found;
}

/// What `Add` says of each place of the columns' rows, of which each block is looked at once for all columns.
template <template <std::size_t, class> class Add, class Statistic>
[[nodiscard]] auto statistics_of(FitRows const& rows, std::vector<std::string> const& columns,
                                 std::string const& attempted) -> ByColumn<Statistic> {
  ByColumn<Statistic> none;
  for (auto const& name : columns) none[name].resize(numbers_of(rows.layout(), name, attempted).row_values());
  return rows.fold(
      none,
      [&](Dataset const& block) {
        auto found = none;
        for (auto& [name, of_places] : found) {
          block.column(name).visit([&]<Element T>(std::span<T const> values) { add_tiles<Add>(values, of_places); });
        }
        return found;
      },
      [](ByColumn<Statistic>& all, ByColumn<Statistic> const& others) {
        for (auto& [name, of_places] : all) {
          auto const& theirs = others.at(name);
          for (std::size_t place = 0; place < of_places.size(); ++place) of_places[place].merge(theirs[place]);
        }
      });
}

RAYTRAIN_INLINE void refuse_infinity(std::string const& column, std::string const& attempted) {
  throw Error{Errc::invalid_data, attempted, fmt::format("column '{}' has an infinite value", column),
              "leave such rows out by filter, or write NaN, which stands for a missing value"};
}

/// Of infinite values, and of those whose squares are, not finite.
[[nodiscard]] inline auto unchecked_moments(FitRows const& rows, std::vector<std::string> const& columns,
                                            std::string const& attempted) -> ByColumn<ValueMoments> {
  ByColumn<ValueMoments> moments;
  for (auto const& [name, sums] : statistics_of<AddMoments, MomentSums>(rows, columns, attempted)) {
    for (auto const& of_place : sums) moments[name].push_back(of_place.moments());
  }
  return moments;
}

/// A group operation. Errors: `invalid_data`, always: for an infinite value, or else for values that are too large.
[[noreturn]] inline void refuse_moments(FitRows const& rows, std::string const& column, std::string const& attempted) {
  (void)value_ranges(rows, column, attempted);  // refuses infinities
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has finite values whose sum or squares are beyond float64", column),
              "bring it to other units before, or leave such rows out by filter"};
}

}  // namespace detail

RAYTRAIN_INLINE auto value_moments(FitRows const& rows, std::vector<std::string> const& columns,
                                   std::string const& attempted) -> ByColumn<ValueMoments> {
  auto moments = detail::unchecked_moments(rows, columns, attempted);
  auto const is_finite = [](ValueMoments const& of_value) {
    return std::isfinite(of_value.mean) && std::isfinite(of_value.squares);
  };
  for (auto const& name : columns) {
    if (!std::ranges::all_of(moments[name], is_finite)) detail::refuse_moments(rows, name, attempted);
  }
  return moments;
}

RAYTRAIN_INLINE auto value_means(FitRows const& rows, std::vector<std::string> const& columns,
                                 std::string const& attempted) -> ByColumn<double> {
  ByColumn<double> means;
  auto const all_moments = detail::unchecked_moments(rows, columns, attempted);
  for (auto const& name : columns) {
    for (auto const& moments : all_moments.at(name)) {
      means[name].push_back(moments.count == 0 ? std::numeric_limits<double>::quiet_NaN() : moments.mean);
      if (!std::isfinite(moments.mean)) detail::refuse_moments(rows, name, attempted);
    }
  }
  return means;
}

RAYTRAIN_INLINE auto value_ranges(FitRows const& rows, std::vector<std::string> const& columns,
                                  std::string const& attempted) -> ByColumn<ValueRange> {
  auto ranges = detail::statistics_of<detail::AddRanges, ValueRange>(rows, columns, attempted);
  for (auto const& name : columns) {
    for (auto const& range : ranges[name]) {
      if (!range.is_empty() && !(std::isfinite(range.min) && std::isfinite(range.max))) {
        detail::refuse_infinity(name, attempted);
      }
    }
  }
  return ranges;
}

RAYTRAIN_INLINE auto value_moments(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> std::vector<ValueMoments> {
  return value_moments(rows, std::vector{column}, attempted)[column];
}

RAYTRAIN_INLINE auto value_means(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> std::vector<double> {
  return value_means(rows, std::vector{column}, attempted)[column];
}

RAYTRAIN_INLINE auto value_ranges(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> std::vector<ValueRange> {
  return value_ranges(rows, std::vector{column}, attempted)[column];
}

namespace detail {

/// How often this worker's rows have each value of a column. It stops above as many as may be categories.
struct OwnCounts {
  std::map<std::string, std::uint64_t> texts{};
  std::unordered_map<double, std::uint64_t> numbers{};

  void add(Column const& column) {
    if (texts.size() > most_categories || numbers.size() > most_categories) return;
    if (column.is_text()) {
      for_each_text(column, [&](std::string const& text, std::uint64_t count) {
        texts[text] += count;
        return texts.size() <= most_categories;
      });
    } else {
      column.visit([&]<Element T>(std::span<T const> values) {
        for (auto const value : values) {
          auto const number = as_double(value) + 0.0;  // -0 is 0
          if (number == number) ++numbers[number];
          if (numbers.size() > most_categories) return;
        }
      });
    }
  }
};

/// What all workers have counted of a column.
[[nodiscard]] inline auto counts_of_all(FitRows const& rows, OwnCounts const& mine, std::string const& column,
                                        std::string const& attempted) -> ValueCounts {
  ValueCounts counts;
  if (rows.layout().column(column).is_text()) {
    std::tie(counts.texts, counts.counts) = add_counts(rows, mine.texts, column, attempted);
    return counts;
  }
  std::map<double, std::uint64_t> const numbers{mine.numbers.begin(), mine.numbers.end()};
  std::tie(counts.numbers, counts.counts) = add_counts(rows, numbers, column, attempted);
  auto const is_finite = [](double number) { return std::isfinite(number); };
  if (!std::ranges::all_of(counts.numbers, is_finite)) refuse_infinity(column, attempted);
  return counts;
}

}  // namespace detail

RAYTRAIN_INLINE auto value_counts(FitRows const& rows, std::vector<std::string> const& columns,
                                  std::string const& attempted) -> std::map<std::string, ValueCounts> {
  for (auto const& name : columns) rows.layout().column(name).check_one_value_a_row(attempted);
  std::map<std::string, detail::OwnCounts> mine;
  rows.for_each_piece([&](Dataset const& some) {
    for (auto const& name : columns) mine[name].add(some.column(name));
  });
  std::map<std::string, ValueCounts> counts;
  for (auto const& name : columns) counts[name] = detail::counts_of_all(rows, mine[name], name, attempted);
  return counts;
}

RAYTRAIN_INLINE auto value_counts(FitRows const& rows, std::string const& column, std::string const& attempted)
    -> ValueCounts {
  return std::move(value_counts(rows, std::vector{column}, attempted)[column]);
}

}  // namespace raytrain
