// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/detail/categories.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Makes int64 numbers of the classes that rows belong to: from 0 in the order of the values, as losses take them.
/// `inverse_transform` tells the class of a number that was predicted.
///
/// Rows without the column stay as they are, since those to predict have no label yet.
struct LabelEncoder {
  static constexpr std::string_view type_name = "LabelEncoder";

  std::string label_column{};       ///< Text or numbers, of one value a row.
  detail::Categories categories{};  ///< Learnt: the classes.

  /// Errors: `invalid_config` where no column is named; else as of `OrdinalEncoder`.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return categories.size() > 0; }
  /// Errors: `invalid_call` before `fit`; `invalid_data` for a label that is missing or that fit has not seen, and
  ///         for text where there were numbers, or the other way round.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// Texts, and numbers as float64. Errors: `invalid_data` for what is no class's number.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const { detail::check_learnt_categories(categories, type_name, "categories", "it"); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(label_column), CEREAL_NVP(categories));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/label_encoder-inl.hpp>
#endif
