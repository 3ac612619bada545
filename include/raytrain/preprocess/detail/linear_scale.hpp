// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>

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

/// A column of `row_shape` whose values `fill(from, to)` makes of this one's: float64 of float64, and float32 of any
/// other numbers.
template <class Fill>
[[nodiscard]] auto floats_of(Column const& column, RowShape row_shape, Fill const& fill) -> Column {
  auto const made = [&]<class To>(To /*zero*/) {
    std::size_t row_values = 1;
    for (auto const extent : row_shape) row_values *= extent;
    std::vector<To> values(column.rows() * row_values);
    column.visit([&]<Element From>(std::span<From const> from) { fill(from, std::span{values}); });
    return Column{column.name(), std::move(values), std::move(row_shape)};
  };
  return column.type() == ElementType::float64 ? made(double{}) : made(float{});
}

/// The dataset with its columns scaled. `attempted`: "StandardScaler::transform".
///
/// Errors: `not_found` for a column that is not there; `invalid_data` for one of text, and of another number of values
///         a row.
[[nodiscard]] auto scaled(Dataset const& dataset, LinearScales const& scales, std::string const& attempted) -> Dataset;

/// value * scale + shift.
[[nodiscard]] auto unscaled(Dataset const& dataset, LinearScales const& scales, std::string const& attempted)
    -> Dataset;

/// Whether each of the columns, of which there is at least one, has a scale.
[[nodiscard]] auto has_scales(std::vector<std::string> const& columns, LinearScales const& scales) -> bool;

/// Errors: `invalid_config` for no column, and for one that is named twice.
void check_columns(std::vector<std::string> const& columns, std::string_view type_name);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/linear_scale-inl.hpp>
#endif
