// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/ordinal_encoder.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

namespace detail {

/// Errors: `code` where the number of what is unknown is that of a category.
inline void check_unknown_value(std::int32_t unknown_value, CategoriesByColumn const& categories, Errc code) {
  for (auto const& [column, of_column] : categories) {
    if (unknown_value < 0 || std::cmp_greater_equal(unknown_value, of_column.size())) continue;
    throw Error{code, "OrdinalEncoder::unknown_value",
                fmt::format("{} is the number of a category of column '{}', which has {}", unknown_value, column,
                            of_column.size()),
                fmt::format("give it -1, or a number from {} on", of_column.size())};
  }
}

}  // namespace detail

RAYTRAIN_INLINE void OrdinalEncoder::fit(FitRows const& rows) {
  auto learnt = detail::learn_categories(rows, columns, max_categories, type_name);
  detail::check_unknown_value(unknown_value, learnt, Errc::invalid_config);
  categories = std::move(learnt);
}

RAYTRAIN_INLINE void OrdinalEncoder::check_state() const {
  detail::check_learnt_categories(categories, type_name, "categories");
  detail::check_unknown_value(unknown_value, categories, Errc::invalid_data);
}

RAYTRAIN_INLINE auto OrdinalEncoder::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  detail::check_unknown_value(unknown_value, categories, Errc::invalid_config);
  auto result = dataset;
  for (auto const& name : columns) {
    std::vector<std::int64_t> numbers(dataset.rows());
    detail::for_each_category(dataset.column(name), categories.at(name), handle_unknown, "OrdinalEncoder::transform",
                              [&](std::size_t row, std::int32_t number) {
                                numbers[row] = number == detail::no_category ? unknown_value : number;
                              });
    result = result.with_column({name, std::move(numbers)});
  }
  return result;
}

RAYTRAIN_INLINE auto OrdinalEncoder::inverse_transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  detail::check_unknown_value(unknown_value, categories, Errc::invalid_config);
  auto result = dataset;
  std::string const attempted = "OrdinalEncoder::inverse_transform";
  for (auto const& name : columns) {
    auto const& given = dataset.column(name);
    given.check_holds_numbers(attempted);
    std::vector<double> numbers;
    numbers.reserve(given.rows());
    given.visit([&]<Element T>(std::span<T const> values) {
      for (auto const value : values) {
        auto const number = detail::as_double(value);
        numbers.push_back(number == static_cast<double>(unknown_value) ? detail::no_category : number);
      }
    });
    result = result.with_column(
        detail::decoded({name, std::move(numbers), given.row_shape()}, categories.at(name), attempted));
  }
  return result;
}

}  // namespace raytrain
