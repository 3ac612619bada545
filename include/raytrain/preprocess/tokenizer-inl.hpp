// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/column_statistics.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/detail/fitted_columns.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>
#include <raytrain/preprocess/detail/piece_counts.hpp>
#include <raytrain/preprocess/detail/text_pieces.hpp>
#include <raytrain/preprocess/detail/values_of_codes.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/tokenizer.hpp>

namespace raytrain::detail {

/// Those that come so often.
///
/// Errors: `invalid_data` where some come, and none so often.
[[nodiscard]] RAYTRAIN_INLINE auto often_enough(ValueCounts counts, std::uint64_t min_count, std::string const& column)
    -> ValueCounts {
  ValueCounts kept;
  for (std::size_t i = 0; i < counts.counts.size(); ++i) {
    if (counts.counts[i] < min_count) continue;
    kept.texts.push_back(std::move(counts.texts[i]));
    kept.counts.push_back(counts.counts[i]);
  }
  if (!kept.counts.empty() || counts.counts.empty()) return kept;
  throw Error{Errc::invalid_data, "Tokenizer::fit",
              fmt::format("no word of column '{}' comes {} times; the most frequent one comes {}", column, min_count,
                          std::ranges::max(counts.counts)),
              "write a smaller min_count"};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE void Tokenizer::fit(FitRows const& rows) {
  detail::check_columns(columns, type_name);
  if (auto wrong = wrong_length(); !wrong.empty()) {
    throw Error{Errc::invalid_config, "Tokenizer::length", std::move(wrong),
                "write Tokenizer{{\"text\"}, 32}: a row takes 4 bytes for each word"};
  }
  detail::check_not_zero(max_features, type_name, "max_features");
  detail::CategoriesByColumn learnt;
  for (auto const& name : columns) {
    auto counts = detail::piece_counts(rows, name, "Tokenizer::fit", [](std::string_view text, auto const& work) {
      detail::for_each_token(text, work);
    });
    auto kept = detail::often_enough(std::move(counts), min_count, name);
    learnt[name] = detail::categories_of(std::move(kept), max_features, name, type_name);
  }
  vocabularies = std::move(learnt);
}

RAYTRAIN_INLINE auto Tokenizer::transform(Dataset const& dataset) const -> Dataset {
  detail::check_fitted(is_fitted(), type_name, "transform");
  auto result = dataset;
  for (auto const& name : columns) {
    auto const& vocabulary = vocabularies.at(name);
    auto const column = detail::with_missing_texts(dataset.column(name));
    detail::check_holds_text(column, "Tokenizer::transform");
    detail::ZeroedRows<std::int32_t> made{dataset.rows(), length};
    static_assert(padding == 0);
    auto const numbers = made.values();
    auto const codes = column.as<std::int32_t>();
    detail::ValuesOfCodes<std::size_t> rows_of_text{column, dataset.rows()};  // the first row that has it
    for (std::size_t row = 0; row < codes.size(); ++row) {
      if (codes[row] < 0) continue;
      auto const of_row = numbers.subspan(row * length, length);
      auto& first = rows_of_text[codes[row]];
      if (first < row) {
        std::ranges::copy(numbers.subspan(first * length, length), of_row.begin());
        continue;
      }
      first = row;
      std::size_t words = 0;
      detail::for_each_token(column.categories()[static_cast<std::size_t>(codes[row])], [&](std::string_view word) {
        if (words == length) return;
        auto const number = vocabulary.number_of(word);
        of_row[words++] = number == detail::no_category ? unknown : first_word + number;
      });
    }
    result = result.with_column(std::move(made).take(name));
  }
  return result;
}

RAYTRAIN_INLINE auto Tokenizer::num_tokens(std::string const& column) const -> std::size_t {
  detail::check_fitted(is_fitted(), type_name, "num_tokens");
  auto const found = vocabularies.find(column);
  if (found != vocabularies.end()) return found->second.size() + static_cast<std::size_t>(first_word);
  throw Error{
      Errc::not_found, fmt::format("Tokenizer::num_tokens('{}')", column),
      fmt::format("no such column was learnt from; there are {}", fmt::join(vocabularies | std::views::keys, ", ")),
      "name one of them"};
}

RAYTRAIN_INLINE auto Tokenizer::wrong_length() const -> std::string {
  constexpr auto most = std::size_t{1} << 20U;
  return length >= 1 && length <= most ? std::string{} : fmt::format("must be from 1 to {} (got {})", most, length);
}

RAYTRAIN_INLINE void Tokenizer::check_state() const {
  if (auto const wrong = wrong_length(); !wrong.empty()) detail::refuse_state(type_name, "length", wrong);
  detail::check_learnt_categories(vocabularies, type_name, "vocabularies");
}

}  // namespace raytrain
