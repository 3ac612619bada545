// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/count_vectorizer.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>
#include <raytrain/preprocess/detail/piece_counts.hpp>
#include <raytrain/preprocess/detail/text_pieces.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

RAYTRAIN_INLINE void CountVectorizer::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  detail::check_not_zero(max_features, type_name, "max_features");
  detail::CategoriesByColumn learnt;
  for (auto const& name : columns) {
    auto counts = detail::piece_counts(rows, name, "CountVectorizer::fit", [](std::string_view text, auto const& work) {
      detail::for_each_token(text, work);
    });
    learnt[name] = detail::categories_of(std::move(counts), max_features, name, type_name);
  }
  vocabularies = std::move(learnt);
}

RAYTRAIN_INLINE auto CountVectorizer::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& vocabulary = vocabularies.at(name);
    auto const column = detail::with_missing_texts(dataset.column(name));
    detail::check_holds_text(column, "CountVectorizer::transform");
    detail::ZeroedRows made{dataset.rows(), vocabulary.size()};
    detail::add_at_places(column, vocabulary.size(), made.values(),
                          [&](std::string_view text, std::vector<std::size_t>& places) {
                            detail::for_each_token(text, [&](std::string_view token) {
                              auto const number = vocabulary.number_of(token);
                              if (number != detail::no_category) places.push_back(static_cast<std::size_t>(number));
                            });
                          });
    result = result.with_column(std::move(made).take(name));
  }
  return result;
}

}  // namespace raytrain
