// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/k_bins_discretizer.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/value_quantiles.hpp>

namespace raytrain {

namespace detail {

inline void check_bins(KBinsDiscretizer const& discretizer) {
  if (discretizer.n_bins < 2 || discretizer.n_bins > 65'536) {
    throw Error{Errc::invalid_config, "KBinsDiscretizer::n_bins",
                fmt::format("must be from 2 to 65536 (got {})", discretizer.n_bins), "write .n_bins = 5"};
  }
  for (auto const& [name, edges] : discretizer.bins) {
    auto const refuse = [&](std::string const& happened, char const* remedy) {
      throw Error{Errc::invalid_config, "KBinsDiscretizer::bins", happened, remedy};
    };
    if (std::ranges::find(discretizer.columns, name) == discretizer.columns.end()) {
      refuse(fmt::format("has edges of '{}', which is none of the columns", name), "name it among the columns, too");
    }
    auto const ascends = std::ranges::adjacent_find(edges, std::not_fn(std::less<>{})) == edges.end();
    if (edges.size() < 2 || !ascends || !std::ranges::all_of(edges, [](double edge) { return std::isfinite(edge); })) {
      refuse(fmt::format("must be two ascending, finite edges or more for '{}' (got {})", name, fmt::join(edges, ", ")),
             "write .bins = {{\"age\", {0, 18, 65, 120}}}");
    }
  }
}

/// Of equal width, the last one exactly at the end.
[[nodiscard]] inline auto uniform_edges(ValueRange const& range, int n_bins) -> std::vector<double> {
  auto const distance = range.max - range.min;
  auto const width = std::isfinite(distance) ? distance / n_bins : range.max / n_bins - range.min / n_bins;
  std::vector<double> edges;
  for (int i = 0; i < n_bins; ++i) edges.push_back(std::min(range.min + i * width, range.max));
  edges.push_back(range.max);
  return edges;
}

/// For each place of the column's rows; of NaN where there are no values.
[[nodiscard]] inline auto learn_quantile_edges(FitRows const& rows, std::string const& name, int n_bins,
                                               std::string const& attempted) -> std::vector<std::vector<double>> {
  std::vector<double> at;
  for (int i = 0; i <= n_bins; ++i) at.push_back(static_cast<double>(i) / n_bins);
  return value_quantiles(rows, name, at, attempted);
}

/// For each place of the column's rows; empty where there are no values.
[[nodiscard]] inline auto uniform_edges(std::vector<ValueRange> const& ranges, int n_bins)
    -> std::vector<std::vector<double>> {
  std::vector<std::vector<double>> edges;
  for (auto const& range : ranges) {
    edges.push_back(range.is_empty() ? std::vector<double>{} : uniform_edges(range, n_bins));
  }
  return edges;
}

/// The number of the bin, from 0.
[[nodiscard]] inline auto bin_of(double value, std::vector<double> const& edges) -> double {
  if (std::isnan(value)) return value;
  return static_cast<double>(std::upper_bound(edges.begin() + 1, edges.end() - 1, value) - edges.begin() - 1);
}

}  // namespace detail

RAYTRAIN_INLINE void KBinsDiscretizer::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  detail::check_bins(*this);
  auto const* const attempted = "KBinsDiscretizer::fit";
  auto const is_uniform = strategy == BinStrategy::uniform;
  std::vector<std::string> ranged;
  std::ranges::copy_if(columns, std::back_inserter(ranged),
                       [&](auto const& name) { return is_uniform && !bins.contains(name); });
  auto const ranges = value_ranges(rows, ranged, attempted);
  std::map<std::string, std::vector<std::vector<double>>> learnt;
  for (auto const& name : columns) {
    if (auto const given = bins.find(name); given != bins.end()) {
      auto const& column = rows.layout().column(name);
      column.check_holds_numbers(attempted);
      learnt[name].assign(column.row_values(), given->second);
      continue;
    }
    learnt[name] = is_uniform ? detail::uniform_edges(ranges.at(name), n_bins)
                              : detail::learn_quantile_edges(rows, name, n_bins, attempted);
    for (auto& of_place : learnt[name]) {
      detail::check_has_values(!of_place.empty() && !std::isnan(of_place[0]), name, type_name);
      auto const only = of_place[0];
      of_place.erase(std::unique(of_place.begin(), of_place.end()), of_place.end());
      if (of_place.size() == 1) of_place.push_back(only);
    }
  }
  edges = std::move(learnt);
}

RAYTRAIN_INLINE void KBinsDiscretizer::check_state() const {
  for (auto const& [name, of_places] : edges) {
    auto const are_edges = [](std::vector<double> const& place) {  // of one value two that are equal
      return place.size() >= 2 && std::ranges::is_sorted(place) &&
             std::ranges::all_of(place, [](double edge) { return std::isfinite(edge); });
    };
    if (of_places.empty() || !std::ranges::all_of(of_places, are_edges)) {
      detail::refuse_state(type_name, "edges",
                           fmt::format("column '{}' needs two ascending, finite edges or more at each place", name));
    }
  }
}

RAYTRAIN_INLINE auto KBinsDiscretizer::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_places = edges.at(name);
    result = detail::with_changed_values(
        result, name, of_places.size(), "KBinsDiscretizer::transform",
        [&places = of_places](double value, std::size_t place) { return detail::bin_of(value, places[place]); });
  }
  return result;
}

RAYTRAIN_INLINE auto KBinsDiscretizer::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  auto const* const attempted = "KBinsDiscretizer::inverse_transform";
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_places = edges.at(name);
    auto const centre = [&column = name, &places = of_places, attempted](double value, std::size_t place) {
      if (std::isnan(value)) return value;
      auto const& edges_there = places[place];
      auto const count = static_cast<double>(edges_there.size() - 1);
      if (!(value >= 0 && value < count && value == std::floor(value))) {
        throw Error{Errc::invalid_data, attempted,
                    fmt::format("column '{}' has {}, and its bins are 0 to {}", column, value, count - 1),
                    "give it what transform has made"};
      }
      auto const bin = static_cast<std::size_t>(value);
      return edges_there[bin] / 2 + edges_there[bin + 1] / 2;
    };
    result = detail::with_changed_values(result, name, of_places.size(), attempted, centre);
  }
  return result;
}

}  // namespace raytrain
