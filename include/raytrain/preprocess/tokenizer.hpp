// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Makes of each column of text one of row shape {length}, int32, that has the number of each word in its place: what
/// `torch::nn::Embedding` takes.
///
/// Words are as of `CountVectorizer`. Those that were learnt are numbered from `first_word` on, in the order of their
/// bytes; a word that fit has not seen, or has left out, is `unknown`. Of a text only the first `length` words are
/// kept, and one of fewer is filled up with `padding`, as a text that is missing is from its begin:
///
///     torch::nn::Embedding{torch::nn::EmbeddingOptions(tokenizer.num_tokens("text"), 64).padding_idx(0)}
struct Tokenizer {
  static constexpr std::string_view type_name = "Tokenizer";
  static constexpr std::int32_t padding = 0;     ///< Behind the last word of a text.
  static constexpr std::int32_t unknown = 1;     ///< A word that was not learnt.
  static constexpr std::int32_t first_word = 2;  ///< The first one that was.

  std::vector<std::string> columns{};  ///< At least one, of text.
  std::size_t length = 0;              ///< Words of a row, from 1 to 1,048,576: always to be set.
  /// So many words that come most often in all rows together, at least 1; of those that come equally often the smaller
  /// ones by their bytes. All where left out.
  std::optional<std::size_t> max_features{};
  std::uint64_t min_count = 1;                ///< Words that come less often in all rows together are not learnt.
  detail::CategoriesByColumn vocabularies{};  ///< Learnt.

  /// Errors: `invalid_config` for no column, one that is named twice, and settings out of their range; `not_found`;
  ///         `invalid_data` for a column of numbers, one without words that come often enough, words that are not
  ///         UTF-8, and for more than 1,048,576 different ones, rare ones included.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, vocabularies); }
  /// Errors: `invalid_call` before `fit`; `not_found`; `invalid_data` for a column of numbers.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;

  /// Different numbers that the column can have, `padding` and `unknown` among them: rows of an `Embedding`.
  ///
  /// Errors: `invalid_call` before `fit`; `not_found` for a column that was not learnt from.
  [[nodiscard]] auto num_tokens(std::string const& column) const -> std::size_t;

  /// Errors: `invalid_data` for a length out of its range, and for what no fit learns; called where JSON is read.
  void check_state() const;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(length), CEREAL_NVP(max_features), CEREAL_NVP(min_count),
      CEREAL_NVP(vocabularies));
  }

 private:
  /// Empty where it is none.
  [[nodiscard]] auto wrong_length() const -> std::string;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/tokenizer-inl.hpp>
#endif
