// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/ordinal_encoder.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void OrdinalEncoder::fit(FitRows const& rows) {
  categories = detail::learn_categories(rows, columns, max_categories, type_name);
}

RAYTRAIN_INLINE auto OrdinalEncoder::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    std::vector<std::int64_t> numbers(dataset.rows());
    detail::for_each_category(dataset.column(name), categories.at(name), handle_unknown, "OrdinalEncoder::transform",
                              [&](std::size_t row, std::int32_t number) { numbers[row] = number; });
    result = result.with_column({name, std::move(numbers)});
  }
  return result;
}

RAYTRAIN_INLINE auto OrdinalEncoder::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  auto result = dataset;
  for (auto const& name : columns) {
    result = result.with_column(
        detail::decoded(dataset.column(name), categories.at(name), "OrdinalEncoder::inverse_transform"));
  }
  return result;
}

}  // namespace raytrain
