// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>

namespace raytrain::detail {

/// (value - shift) / scale, for each value of a row of one column.
struct LinearScale {
  std::vector<double> shift{};
  std::vector<double> scale{};  ///< None is 0.

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(shift), CEREAL_NVP(scale));
  }
};

/// By the column's name.
using LinearScales = std::map<std::string, LinearScale>;

/// The dataset with these columns scaled, all of which have a scale. `attempted`: "StandardScaler::transform".
///
/// Errors: `not_found` for a column that is not there; `invalid_data` for one of text, and of another number of values
///         a row.
[[nodiscard]] auto scaled(Dataset const& dataset, std::vector<std::string> const& columns, LinearScales const& scales,
                          std::string const& attempted) -> Dataset;

/// value * scale + shift.
[[nodiscard]] auto unscaled(Dataset const& dataset, std::vector<std::string> const& columns, LinearScales const& scales,
                            std::string const& attempted) -> Dataset;

/// Errors: `invalid_data` unless each column has as many finite shifts as finite scales, of which none is 0.
void check_scales(LinearScales const& scales, std::string_view type_name);

/// Errors: `invalid_data`, always: differences of the column's values are more than double has.
[[noreturn]] void refuse_distance(std::string const& column, std::string_view type_name);

/// Learns a scale for each place of the rows of each column: of what `statistics_of(column)` finds, one for each place,
/// `scale_of(statistic)` makes a pair of shift and scale, or none where it is of no values.
///
/// Errors: as `check_columns`; `invalid_data` for a column without values, and for values too far apart.
template <class StatisticsOf, class ScaleOf>
[[nodiscard]] auto learn_scales(std::vector<std::string> const& columns, std::string_view type_name,
                                StatisticsOf const& statistics_of, ScaleOf const& scale_of) -> LinearScales {
  check_columns(columns, type_name);
  LinearScales learnt;
  for (auto const& name : columns) {
    auto& scales = learnt[name];
    for (auto const& statistic : statistics_of(name)) {
      std::optional<std::pair<double, double>> const found = scale_of(statistic);
      check_has_values(found.has_value(), name, type_name);
      auto const [shift, scale] = *found;
      if (!std::isfinite(shift) || !std::isfinite(scale)) refuse_distance(name, type_name);
      scales.shift.push_back(shift);
      scales.scale.push_back(scale);
    }
  }
  return learnt;
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/linear_scale-inl.hpp>
#endif
