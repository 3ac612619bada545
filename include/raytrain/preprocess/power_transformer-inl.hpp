// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>
#include <raytrain/preprocess/detail/power_functions.hpp>
#include <raytrain/preprocess/detail/power_search.hpp>
#include <raytrain/preprocess/detail/standard_scale.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/power_transformer.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

namespace detail {

/// The logarithms that the method takes powers of.
[[nodiscard]] inline auto log_for(PowerMethod method, double value) noexcept -> double {
  return method == PowerMethod::box_cox ? std::log(value) : signed_log(value);
}

[[nodiscard]] inline auto power_for(PowerMethod method, double log, double power) noexcept -> double {
  return method == PowerMethod::box_cox ? power_of_log(log, power) : power_of_signed_log(log, power);
}

/// The number whose power is `value`.
[[nodiscard]] inline auto inverse_power(PowerMethod method, double value, double power) noexcept -> double {
  if (method == PowerMethod::box_cox) return std::exp(log_of_power(value, power));
  return value < 0 ? -std::expm1(log_of_power(-value, 2 - power)) : std::expm1(log_of_power(value, power));
}

inline void check_above_zero(double value, std::string const& column, char const* attempted) {
  if (value > 0 || std::isnan(value)) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has the value {}, and box_cox takes those above 0", column, value),
              "take PowerMethod::yeo_johnson"};
}

/// Powers ascend with their values: those of the smallest and the largest one tell.
inline void check_powers(PowerMethod method, double power, ValueRange const& range, std::string const& column,
                         char const* attempted) {
  auto const is_finite = [&](double value) { return std::isfinite(power_for(method, log_for(method, value), power)); };
  if (is_finite(range.min) && is_finite(range.max)) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("power {} makes of column '{}' numbers beyond float64", power, column),
              "give one nearer to 1, or leave it out"};
}

/// Errors: `invalid_data` for a number that the floats do not hold which `floats_of` makes of the column.
inline void check_holds(double made, double value, double power, Column const& column, char const* attempted) {
  auto const is_double = column.type() == ElementType::float64;
  auto const most = is_double ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
  if (!(std::abs(made) > most) || std::isinf(value)) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has the value {}, of which power {} makes {}, beyond {}", column.name(), value,
                          power, made, is_double ? "float64" : "float32"),
              is_double ? "give a power nearer to 1, or leave it out" : "set standardize, or make the column float64"};
}

/// The column's logarithms alone, as float64.
[[nodiscard]] inline auto logs_of(FitRows const& rows, std::string const& name, PowerMethod method) -> FitRows {
  return rows.transformed([&](Dataset const& all) {
    auto const& column = all.column(name);
    std::vector<double> logs;
    logs.reserve(column.rows() * column.row_values());
    column.visit([&]<Element T>(std::span<T const> values) {
      for (auto const value : values) logs.push_back(log_for(method, as_double(value)));
    });
    return Dataset::from_columns({{name, std::move(logs), column.row_shape()}});
  });
}

/// The power of the largest likelihood for each place of the rows; all are looked for side by side.
[[nodiscard]] inline auto learn_powers(FitRows const& logs, std::string const& name, PowerMethod method,
                                       std::string const& attempted) -> std::vector<double> {
  auto const ranges = value_ranges(logs, name, attempted);
  auto const moments = value_moments(logs, name, attempted);
  std::vector<PowerSearch> searches;
  for (std::size_t place = 0; place < ranges.size(); ++place) {
    searches.emplace_back(ranges[place], moments[place].mean, method == PowerMethod::yeo_johnson);
  }
  while (!std::ranges::all_of(searches, &PowerSearch::is_done)) {
    auto const tried = logs.transformed([&](Dataset const& all) {
      return with_changed_values(all, name, searches.size(), attempted,
                                 [&](double log, std::size_t place) { return searches[place].tried(log); });
    });
    auto const of_tried = value_moments(tried, name, attempted);
    for (std::size_t place = 0; place < searches.size(); ++place) searches[place].take(of_tried[place]);
  }
  std::vector<double> powers;
  for (auto const& search : searches) powers.push_back(search.best());
  return powers;
}

}  // namespace detail

RAYTRAIN_INLINE void PowerTransformer::fit(FitRows const& rows) {
  auto const* const attempted = "PowerTransformer::fit";
  detail::check_columns(columns, type_name);
  if (power && !std::isfinite(*power)) {
    throw Error{Errc::invalid_config, "PowerTransformer::power", fmt::format("must be finite (got {})", *power),
                "leave it out, and it is learnt"};
  }
  std::map<std::string, std::vector<double>> learnt;
  for (auto const& name : columns) {
    auto const ranges = value_ranges(rows, name, attempted);
    for (auto const& range : ranges) {
      detail::check_has_values(!range.is_empty(), name, type_name);
      if (method == PowerMethod::box_cox) detail::check_above_zero(range.min, name, attempted);
      if (power) detail::check_powers(method, *power, range, name, attempted);
    }
    learnt[name] = power ? std::vector<double>(ranges.size(), *power)
                         : detail::learn_powers(detail::logs_of(rows, name, method), name, method, attempted);
  }
  scales = detail::learn_scales(
      columns, type_name,
      [&](auto const& name) {
        auto const& of_places = learnt[name];
        if (!standardize) return std::vector<ValueMoments>(of_places.size());
        auto const raised = detail::logs_of(rows, name, method).transformed([&](Dataset const& logs) {
          return detail::with_changed_values(
              logs, name, of_places.size(), attempted,
              [&](double log, std::size_t place) { return detail::power_for(method, log, of_places[place]); });
        });
        return value_moments(raised, name, power ? fmt::format("{}, after power {}", attempted, *power) : attempted);
      },
      [&](ValueMoments const& moments) {
        return standardize ? detail::standard_scale(moments) : std::pair{0.0, 1.0};
      });
  powers = std::move(learnt);
}

RAYTRAIN_INLINE void PowerTransformer::check_state() const {
  detail::check_scales(scales, type_name);
  for (auto const& [name, of_scales] : scales) {
    auto const found = powers.find(name);
    auto const count = found == powers.end() ? 0 : found->second.size();
    if (count != of_scales.scale.size()) {
      detail::refuse_state(type_name, "powers",
                           fmt::format("column '{}' has {} powers and {} scales, and needs as many of both", name,
                                       count, of_scales.scale.size()));
    }
    if (!std::ranges::all_of(found->second, [](double learnt) { return std::isfinite(learnt); })) {
      detail::refuse_state(type_name, "powers", fmt::format("column '{}' has a power that is not finite", name));
    }
  }
}

RAYTRAIN_INLINE auto PowerTransformer::transform(Dataset const& dataset) const -> Dataset {
  auto const* const attempted = "PowerTransformer::transform";
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_places = powers.at(name);
    auto const column = result.column(name);
    auto const raised = [&, &places = of_places, &scale = scales.at(name)](double value, std::size_t place) {
      if (method == PowerMethod::box_cox) detail::check_above_zero(value, column.name(), attempted);
      auto const raised_value = detail::power_for(method, detail::log_for(method, value), places[place]);
      auto const made = (raised_value - scale.shift[place]) / scale.scale[place];
      detail::check_holds(made, value, places[place], column, attempted);
      return made;
    };
    result = detail::with_changed_values(result, name, of_places.size(), attempted, raised);
  }
  return result;
}

RAYTRAIN_INLINE auto PowerTransformer::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_places = powers.at(name);
    auto const lowered = [&, &places = of_places, &scale = scales.at(name)](double value, std::size_t place) {
      return detail::inverse_power(method, value * scale.scale[place] + scale.shift[place], places[place]);
    };
    result =
        detail::with_changed_values(result, name, of_places.size(), "PowerTransformer::inverse_transform", lowered);
  }
  return result;
}

}  // namespace raytrain
