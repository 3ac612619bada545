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
#include <raytrain/preprocess/handle_unknown.hpp>

namespace raytrain {

/// Makes int64 numbers of texts, or of numbers that stand for categories: from 0 in the order of the values, each
/// column by itself. What an embedding takes.
///
/// `unknown_value` stands for a text that is missing, and for NaN; for what `max_categories` has left out; and for a
/// value that fit has not seen, by `HandleUnknown::ignore`, or where `max_categories` has left values out.
struct OrdinalEncoder {
  static constexpr std::string_view type_name = "OrdinalEncoder";

  std::vector<std::string> columns{};  ///< At least one, of one value a row.
  /// So many that come most often, at least 1; of those that come equally often the smaller ones. All where left out.
  std::optional<std::size_t> max_categories{};
  HandleUnknown handle_unknown = HandleUnknown::error;
  /// No category's number. -1 is what trees take for a missing one; an embedding of `max_categories` rows and one more
  /// takes `max_categories`.
  std::int32_t unknown_value = -1;
  detail::CategoriesByColumn categories{};  ///< Learnt.

  /// Errors: `invalid_config` for no column, one that is named twice, and for other settings out of their range, as an
  ///         `unknown_value` that is the number of a category; `invalid_data` for a column without values, for text
  ///         that is not UTF-8, and for whole numbers beyond 2^53; as `value_counts`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, categories); }
  /// Errors: `invalid_call` before `fit`; `not_found` and `invalid_data` for columns that are not as they were;
  ///         `invalid_data` for a value that fit has not seen, by `handle_unknown`; `invalid_config` as `fit` for an
  ///         `unknown_value` that was set since.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// Texts, and numbers as float64; a missing one for `unknown_value`, -1 and NaN. Errors: `invalid_data` for what is
  /// no category's number.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(max_categories), CEREAL_NVP(handle_unknown), CEREAL_NVP(unknown_value),
      CEREAL_NVP(categories));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/ordinal_encoder-inl.hpp>
#endif
