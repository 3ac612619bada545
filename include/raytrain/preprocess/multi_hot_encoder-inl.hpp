// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>
#include <raytrain/preprocess/detail/piece_counts.hpp>
#include <raytrain/preprocess/detail/text_pieces.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/multi_hot_encoder.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

namespace detail {

inline void check_delimiter(std::string const& delimiter, Errc code) {
  if (!delimiter.empty() && is_utf8(delimiter)) return;
  throw Error{code, "MultiHotEncoder::delimiter",
              delimiter.empty() ? "is empty" : "is not UTF-8, and JSON of the preprocessor could not hold it",
              "write what stands between values, as \"|\""};
}

}  // namespace detail

RAYTRAIN_INLINE void MultiHotEncoder::check_state() const {
  detail::check_delimiter(delimiter, Errc::invalid_data);
  detail::check_learnt_categories(categories, type_name, "categories");
}

RAYTRAIN_INLINE void MultiHotEncoder::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  detail::check_not_zero(max_categories, type_name, "max_categories");
  detail::check_delimiter(delimiter, Errc::invalid_config);
  detail::CategoriesByColumn learnt;
  for (auto const& name : columns) {
    auto counts = detail::piece_counts(
        rows, name, "MultiHotEncoder::fit",
        [&](std::string_view text, auto const& work) { detail::for_each_piece(text, delimiter, work); });
    learnt[name] = detail::categories_of(std::move(counts), max_categories, name, type_name);
  }
  categories = std::move(learnt);
}

RAYTRAIN_INLINE auto MultiHotEncoder::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& of_column = categories.at(name);
    auto const column = detail::with_missing_texts(dataset.column(name));
    detail::check_holds_text(column, "MultiHotEncoder::transform");
    detail::ZeroedRows made{dataset.rows(), of_column.size()};
    detail::add_at_places(column, of_column.size(), made.values(),
                          [&](std::string_view text, std::vector<std::size_t>& places) {
                            auto const before = static_cast<std::ptrdiff_t>(places.size());
                            detail::for_each_piece(text, delimiter, [&](std::string_view piece) {
                              auto const number = of_column.number_of(piece);
                              if (number != detail::no_category) {
                                places.push_back(static_cast<std::size_t>(number));
                              } else if (detail::refuses_unknown(handle_unknown, of_column)) {
                                detail::refuse_unknown(name, piece, "MultiHotEncoder::transform");
                              }
                            });
                            std::sort(places.begin() + before, places.end());
                            places.erase(std::unique(places.begin() + before, places.end()), places.end());
                          });
    result = result.with_column(std::move(made).take(name));
  }
  return result;
}

RAYTRAIN_INLINE auto MultiHotEncoder::inverse_transform(Dataset const& dataset) const -> Dataset {
  constexpr auto attempted = "MultiHotEncoder::inverse_transform";
  detail::check_fitted(is_fitted(), type_name, "inverse_transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& texts = categories.at(name).texts;
    auto const& column = dataset.column(name);
    column.check_holds_numbers(attempted);
    detail::check_row_values(column, texts.size(), attempted);
    std::vector<std::optional<std::string>> joined(column.rows());
    column.visit([&]<Element T>(std::span<T const> values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto const value = detail::as_double(values[i]);
        if (value == 0) continue;
        if (value != 1) {
          throw Error{Errc::invalid_data, attempted, fmt::format("column '{}' has {}, and not 0 or 1", name, value),
                      "make 0 or 1 of probabilities before, as by a threshold of 0.5"};
        }
        auto& text = joined[i / texts.size()];
        if (!text) {
          text.emplace();
        } else {
          *text += delimiter;
        }
        *text += texts[i % texts.size()];
      }
    });
    result = result.with_column(Column::of_texts(name, joined));
  }
  return result;
}

}  // namespace raytrain
