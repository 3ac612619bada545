// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/one_hot_encoder.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void OneHotEncoder::fit(FitRows const& rows) {
  categories = detail::learn_categories(rows, columns, max_categories, type_name);
}

RAYTRAIN_INLINE auto OneHotEncoder::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_column = categories.at(name);
    auto const width = of_column.size();
    detail::ZeroedRows made{dataset.rows(), width};
    auto const values = made.values();
    detail::for_each_category(dataset.column(name), of_column, handle_unknown, "OneHotEncoder::transform",
                              [&](std::size_t row, std::int32_t number) {
                                if (number >= 0) values[row * width + static_cast<std::size_t>(number)] = 1;
                              });
    result = result.with_column(std::move(made).take(name));
  }
  return result;
}

RAYTRAIN_INLINE auto OneHotEncoder::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_column = categories.at(name);
    auto const width = of_column.size();
    auto const& column = dataset.column(name);
    column.check_holds_numbers("OneHotEncoder::inverse_transform");
    detail::check_row_values(column, width, "OneHotEncoder::inverse_transform");
    std::vector<std::int32_t> numbers;
    numbers.reserve(column.rows());
    column.visit([&]<Element T>(std::span<T const> values) {
      for (std::size_t row = 0; row < column.rows(); ++row) {
        auto const of_row = values.subspan(row * width, width);
        auto const largest = std::ranges::max_element(of_row, {}, [](T value) { return detail::as_double(value); });
        auto const is_missing =
            std::ranges::all_of(of_row, [](T value) { return detail::as_double(value) == 0; }) ||
            std::ranges::any_of(of_row, [](T value) { return std::isnan(detail::as_double(value)); });
        numbers.push_back(is_missing ? detail::no_category : static_cast<std::int32_t>(largest - of_row.begin()));
      }
    });
    result = result.with_column(detail::decoded(name, of_column, numbers));
  }
  return result;
}

}  // namespace raytrain
