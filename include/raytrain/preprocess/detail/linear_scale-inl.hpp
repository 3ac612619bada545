// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>

namespace raytrain::detail {

/// The dataset with `change(value, shift, scale)` in the place of each value of these columns.
template <class Change>
[[nodiscard]] auto with_scales(Dataset dataset, std::vector<std::string> const& columns, LinearScales const& scales,
                               std::string const& attempted, Change const& change) -> Dataset {
  for (auto const& name : columns) {
    auto const& scale = scales.at(name);
    dataset =
        with_changed_values(dataset, name, scale.shift.size(), attempted,
                            [&shifts = scale.shift, &factors = scale.scale, &change](double value, std::size_t place) {
                              return change(value, shifts[place], factors[place]);
                            });
  }
  return dataset;
}

RAYTRAIN_INLINE auto scaled(Dataset const& dataset, std::vector<std::string> const& columns, LinearScales const& scales,
                            std::string const& attempted) -> Dataset {
  return with_scales(dataset, columns, scales, attempted,
                     [](double value, double shift, double scale) { return (value - shift) / scale; });
}

RAYTRAIN_INLINE auto unscaled(Dataset const& dataset, std::vector<std::string> const& columns,
                              LinearScales const& scales, std::string const& attempted) -> Dataset {
  return with_scales(dataset, columns, scales, attempted,
                     [](double value, double shift, double scale) { return value * scale + shift; });
}

RAYTRAIN_INLINE void check_scales(LinearScales const& scales, std::string_view type_name) {
  auto const is_finite = [](double value) { return std::isfinite(value); };
  for (auto const& [name, of_column] : scales) {
    auto const& [shift, scale] = of_column;
    if (shift.empty() || shift.size() != scale.size()) {
      refuse_state(type_name, "scales",
                   fmt::format("column '{}' has {} shifts and {} scales, and needs as many of both, at least one", name,
                               shift.size(), scale.size()));
    }
    if (!std::ranges::all_of(shift, is_finite) || !std::ranges::all_of(scale, is_finite) ||
        std::ranges::find(scale, 0.0) != scale.end()) {
      refuse_state(type_name, "scales",
                   fmt::format("column '{}' has a shift or a scale that is not finite, or a scale of 0", name));
    }
  }
}

RAYTRAIN_INLINE void refuse_distance(std::string const& column, std::string_view type_name) {
  throw Error{Errc::invalid_data, std::string{type_name} + "::fit",
              fmt::format("column '{}' has values that lie too far apart for float64", column),
              "bring it to other units before, or leave such rows out by filter"};
}

}  // namespace raytrain::detail
