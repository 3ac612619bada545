// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/concatenator.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/made_column.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

namespace detail {

/// A row of each, one behind the other. Blocks of rows stay in the cache while all columns write them.
template <Element T>
[[nodiscard]] auto joined(std::vector<Column> const& columns, std::string const& name) -> Column {
  constexpr std::size_t block_rows = 256;
  std::size_t width = 0;
  for (auto const& column : columns) width += column.row_values();
  auto const rows = columns.front().rows();
  std::vector<T> values(rows * width);
  for (std::size_t first = 0; first < rows; first += block_rows) {
    auto const last = std::min(first + block_rows, rows);
    std::size_t place = 0;
    for (auto const& column : columns) {
      auto const count = column.row_values();
      column.visit([&]<Element From>(std::span<From const> from) {
        for (auto row = first; row < last; ++row) {
          for (std::size_t i = 0; i < count; ++i) {
            values[row * width + place + i] = static_cast<T>(as_double(from[row * count + i]));
          }
        }
      });
      place += count;
    }
  }
  return {name, std::move(values), {width}};
}

}  // namespace detail

RAYTRAIN_INLINE void Concatenator::fit(FitRows const& rows) {
  for (auto const& name : exclude) (void)rows.dataset().column(name);
  (void)made_of(rows.dataset().head(0), "Concatenator::fit");
}

RAYTRAIN_INLINE auto Concatenator::chosen(Dataset const& dataset, char const* attempted) const
    -> std::vector<std::string> {
  if (!columns.empty()) {
    detail::check_columns(columns, type_name);
    if (exclude.empty()) return columns;
    throw Error{Errc::invalid_config, "Concatenator::exclude", "names columns, and so does Concatenator::columns",
                "write one of them"};
  }
  std::unordered_set<std::string_view> const excluded{exclude.begin(), exclude.end()};
  std::vector<std::string> names;
  for (auto const& column : dataset.columns()) {
    if (!column.is_text() && !excluded.contains(column.name())) names.push_back(column.name());
  }
  if (!names.empty()) return names;
  throw Error{Errc::invalid_data, attempted, "no column of numbers is left to be joined",
              "make numbers of texts before, by OneHotEncoder or OrdinalEncoder, or exclude fewer columns"};
}

RAYTRAIN_INLINE auto Concatenator::made_of(Dataset const& dataset, char const* attempted) const -> Dataset {
  auto const refuse = [](char const* setting, std::string const& happened, char const* remedy) {
    throw Error{Errc::invalid_config, std::string{"Concatenator::"} + setting, happened, remedy};
  };
  if (output_column_name.empty()) refuse("output_column_name", "is empty", "name the column, as \"features\"");
  if (dtype != ElementType::float32 && dtype != ElementType::float64) {
    refuse("dtype", fmt::format("must be float32 or float64 (got {})", to_string(dtype)), "write one of them");
  }
  auto const names = chosen(dataset, attempted);
  std::vector<Column> joined;
  for (auto const& name : names) {
    joined.push_back(dataset.column(name));
    if (!joined.back().is_text()) continue;
    throw Error{Errc::invalid_data, attempted, fmt::format("column '{}' holds text", name),
                "make numbers of it before, by OneHotEncoder or OrdinalEncoder"};
  }
  auto made = dtype == ElementType::float64 ? detail::joined<double>(joined, output_column_name)
                                            : detail::joined<float>(joined, output_column_name);
  return detail::with_made_column(dataset, keep_columns ? std::vector<std::string>{} : names, std::move(made),
                                  attempted);
}

}  // namespace raytrain
