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
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

namespace detail {

/// A row of each, one behind the other. Blocks of rows stay in the cache while all columns write them.
template <Element T>
[[nodiscard]] auto joined(std::span<Column const> columns, std::string const& name) -> Column {
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
  auto const& there = rows.layout();
  std::unordered_set<std::string_view> names;
  for (auto const& column : there.columns()) names.insert(column.name());
  for (auto const& name : exclude) {
    if (!names.contains(name)) (void)there.column(name);  // tells what there is
  }
  auto of_numbers = chosen(there, "Concatenator::fit");
  (void)made_of(there, of_numbers, "Concatenator::fit");
  learnt_columns = columns.empty() ? std::move(of_numbers) : std::vector<std::string>{};
}

RAYTRAIN_INLINE auto Concatenator::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  return made_of(dataset, columns.empty() ? learnt_columns : chosen(dataset, "Concatenator::transform"),
                 "Concatenator::transform");
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

RAYTRAIN_INLINE auto Concatenator::made_of(Dataset const& dataset, std::vector<std::string> const& names,
                                           char const* attempted) const -> Dataset {
  auto const refuse = [](char const* setting, std::string const& happened, char const* remedy) {
    throw Error{Errc::invalid_config, std::string{"Concatenator::"} + setting, happened, remedy};
  };
  if (output_column_name.empty()) refuse("output_column_name", "is empty", "name the column, as \"features\"");
  if (dtype != ElementType::float32 && dtype != ElementType::float64) {
    refuse("dtype", fmt::format("must be float32 or float64 (got {})", to_string(dtype)), "write one of them");
  }
  auto const joined = dataset.select_columns(names);
  for (auto const& column : joined.columns()) {
    if (!column.is_text()) continue;
    throw Error{Errc::invalid_data, attempted, fmt::format("column '{}' holds text", column.name()),
                "make numbers of it before, by OneHotEncoder or OrdinalEncoder"};
  }
  auto made = dtype == ElementType::float64 ? detail::joined<double>(joined.columns(), output_column_name)
                                            : detail::joined<float>(joined.columns(), output_column_name);
  return detail::with_made_column(dataset, keep_columns ? std::vector<std::string>{} : names, std::move(made),
                                  attempted);
}

}  // namespace raytrain
