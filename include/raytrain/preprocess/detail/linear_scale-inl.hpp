// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/linear_scale.hpp>

namespace raytrain::detail {

/// The dataset with `change(value, shift, scale)` in the place of each value that has a scale.
template <class Change>
[[nodiscard]] auto with_scales(Dataset dataset, LinearScales const& scales, std::string const& attempted,
                               Change const& change) -> Dataset {
  for (auto const& [name, scale] : scales) {
    auto const& column = dataset.column(name);
    column.check_holds_numbers(attempted);
    auto const width = scale.shift.size();
    if (column.row_values() != width) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("column '{}' has {} values a row, and had {} when it was learnt from", name,
                              column.row_values(), width),
                  "give it rows of the shape that fit was given"};
    }
    dataset = dataset.with_column(
        floats_of(column, column.row_shape(), [&]<class From, class To>(std::span<From> from, std::span<To> to) {
          for (std::size_t row = 0; row < from.size(); row += width) {
            for (std::size_t place = 0; place < width; ++place) {
              to[row + place] =
                  static_cast<To>(change(as_double(from[row + place]), scale.shift[place], scale.scale[place]));
            }
          }
        }));
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

}  // namespace raytrain::detail
