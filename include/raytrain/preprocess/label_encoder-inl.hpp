// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/handle_unknown.hpp>
#include <raytrain/preprocess/label_encoder.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void LabelEncoder::fit(FitRows const& rows) {
  if (label_column.empty()) {
    throw Error{Errc::invalid_config, "LabelEncoder::label_column", "names no column", "write LabelEncoder{\"label\"}"};
  }
  categories = detail::learn_categories(rows, label_column, std::nullopt, type_name);
}

RAYTRAIN_INLINE auto LabelEncoder::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  if (std::ranges::find(dataset.columns(), label_column, &Column::name) == dataset.columns().end()) return dataset;
  std::vector<std::int64_t> numbers(dataset.rows());
  detail::for_each_category(
      dataset.column(label_column), categories, HandleUnknown::error, "LabelEncoder::transform",
      [&](std::size_t row, std::int32_t number) {
        if (number == detail::no_category) {
          throw Error{Errc::invalid_data, "LabelEncoder::transform",
                      fmt::format("column '{}' has no label in row {} of the {} that it was given, counted from 0",
                                  label_column, row, dataset.rows()),
                      "leave such rows out before, by filter"};
        }
        numbers[row] = number;
      });
  return dataset.with_column({label_column, std::move(numbers)});
}

RAYTRAIN_INLINE auto LabelEncoder::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  return dataset.with_column(
      detail::decoded(dataset.column(label_column), categories, "LabelEncoder::inverse_transform"));
}

}  // namespace raytrain
