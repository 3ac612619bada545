// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Makes of each column of text one of row shape {words}, float32, that counts each word that was learnt, in the order
/// of the words.
///
/// Words are what lies between blanks of ASCII (spaces, tabs, ends of lines and pages), as Ray splits texts; case and
/// punctuation stay as they are. To have fewer, prepare texts by a `FunctionTransformer` before. A word that fit has
/// not seen adds nothing, and a text that is missing has none. Memory is 4 bytes for each row and word.
struct CountVectorizer {
  static constexpr std::string_view type_name = "CountVectorizer";

  std::vector<std::string> columns{};  ///< At least one, of text.
  /// So many words that come most often in all rows together, at least 1; of those that come equally often the smaller
  /// ones by their bytes. All where left out.
  std::optional<std::size_t> max_features{};
  detail::CategoriesByColumn vocabularies{};  ///< Learnt.

  /// Errors: `invalid_config` for no column, one that is named twice, and for `max_features` of 0; `not_found`;
  ///         `invalid_data` for a column of numbers, one without words, words that are not UTF-8, and for more than
  ///         1,048,576 different ones.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, vocabularies); }
  /// Errors: `invalid_call` before `fit`; `not_found`; `invalid_data` for a column of numbers.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const { detail::check_learnt_categories(vocabularies, type_name, "vocabularies"); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(max_features), CEREAL_NVP(vocabularies));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/count_vectorizer-inl.hpp>
#endif
