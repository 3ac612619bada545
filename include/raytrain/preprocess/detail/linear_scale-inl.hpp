// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>

namespace raytrain::detail {

/// The dataset with `change(value, shift, scale)` in the place of each value that has a scale.
template <class Change>
[[nodiscard]] auto with_scales(Dataset dataset, LinearScales const& scales, std::string const& attempted,
                               Change const& change) -> Dataset {
  for (auto const& [name, scale] : scales) {
    dataset =
        with_changed_values(dataset, name, scale.shift.size(), attempted,
                            [&shifts = scale.shift, &factors = scale.scale, &change](double value, std::size_t place) {
                              return change(value, shifts[place], factors[place]);
                            });
  }
  return dataset;
}

RAYTRAIN_INLINE auto scaled(Dataset const& dataset, LinearScales const& scales, std::string const& attempted)
    -> Dataset {
  return with_scales(dataset, scales, attempted,
                     [](double value, double shift, double scale) { return (value - shift) / scale; });
}

RAYTRAIN_INLINE auto unscaled(Dataset const& dataset, LinearScales const& scales, std::string const& attempted)
    -> Dataset {
  return with_scales(dataset, scales, attempted,
                     [](double value, double shift, double scale) { return value * scale + shift; });
}

RAYTRAIN_INLINE auto has_scales(std::vector<std::string> const& columns, LinearScales const& scales) -> bool {
  return !columns.empty() && std::ranges::all_of(columns, [&](auto const& name) { return scales.contains(name); });
}

RAYTRAIN_INLINE void check_columns(std::vector<std::string> const& columns, std::string_view type_name) {
  auto const refuse = [&](std::string const& happened, std::string const& remedy) {
    throw Error{Errc::invalid_config, std::string{type_name} + "::columns", happened, remedy};
  };
  if (columns.empty()) refuse("names no column", fmt::format("write {}{{{{\"age\"}}}}", type_name));
  std::set<std::string_view> seen;
  for (auto const& name : columns) {
    if (!seen.insert(name).second) refuse(fmt::format("names '{}' twice", name), "name each column once");
  }
}

RAYTRAIN_INLINE void check_has_values(bool has_values, std::string const& column, std::string_view type_name) {
  if (has_values) return;
  throw Error{Errc::invalid_data, std::string{type_name} + "::fit", fmt::format("column '{}' has no value", column),
              "leave it out, or fill it before by SimpleImputer"};
}

RAYTRAIN_INLINE void refuse_distance(std::string const& column, std::string_view type_name) {
  throw Error{Errc::invalid_data, std::string{type_name} + "::fit",
              fmt::format("column '{}' has values that lie too far apart for float64", column),
              "bring it to other units before, or leave such rows out by filter"};
}

}  // namespace raytrain::detail
