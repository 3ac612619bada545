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
#include <raytrain/preprocess/handle_unknown.hpp>

namespace raytrain {

/// Makes of each column one of row shape {categories}: 1 at the place of its value, in the order of the values, and 0
/// at all others. Takes texts, and numbers that stand for categories.
///
/// float32, which layers and `Concatenator` take as it is: 4 bytes for each row and category; a column of many
/// categories is smaller by `OrdinalEncoder`. A row is all 0 for a text that is missing, and for NaN; for what
/// `max_categories` has left out; and for a value that fit has not seen, by `HandleUnknown::ignore`, or where
/// `max_categories` has left values out.
struct OneHotEncoder {
  static constexpr std::string_view type_name = "OneHotEncoder";

  std::vector<std::string> columns{};  ///< At least one, of one value a row.
  /// So many that come most often, at least 1; of those that come equally often the smaller ones. All where left out.
  std::optional<std::size_t> max_categories{};
  HandleUnknown handle_unknown = HandleUnknown::error;
  detail::CategoriesByColumn categories{};  ///< Learnt.

  /// Errors: as of `OrdinalEncoder`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, categories); }
  /// Errors: as of `OrdinalEncoder`.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// The value at the place of the largest number of a row: texts, and numbers as float64; a missing one where all are
  /// 0, or where one is NaN.
  ///
  /// Errors: `invalid_data` for rows of another shape, and for text.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const { detail::check_learnt_categories(categories, type_name, "categories"); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(max_categories), CEREAL_NVP(handle_unknown), CEREAL_NVP(categories));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/one_hot_encoder-inl.hpp>
#endif
