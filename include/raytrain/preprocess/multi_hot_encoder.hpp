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

/// Makes of each column of text, which joins several values as "drama|war", one of row shape {categories}, float32: 1
/// at the place of each of its values, in their order, and 0 at all others.
///
/// Blanks belong to the values, and what is empty is none: a text that is missing or empty gives 0 everywhere. 1 stands
/// also where a value comes several times in a row, as in scikit-learn's MultiLabelBinarizer; Ray counts it. A value
/// that fit has not seen adds nothing by `HandleUnknown::ignore`, or where `max_categories` has left values out.
struct MultiHotEncoder {
  static constexpr std::string_view type_name = "MultiHotEncoder";

  std::vector<std::string> columns{};  ///< At least one, of text.
  std::string delimiter = "|";         ///< Between values; not empty.
  /// So many that come most often, at least 1; of those that come equally often the smaller ones. All where left out.
  std::optional<std::size_t> max_categories{};
  HandleUnknown handle_unknown = HandleUnknown::error;
  detail::CategoriesByColumn categories{};  ///< Learnt.

  /// Errors: `invalid_config` for no column, one that is named twice, and for other settings out of their range;
  ///         `not_found`; `invalid_data` for a column of numbers, one without values, text that is not UTF-8, and for
  ///         more than 1,048,576 different values.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return detail::has_learnt(columns, categories); }
  /// Errors: `invalid_call` before `fit`; `not_found`; `invalid_data` for a column of numbers, and for a value that fit
  ///         has not seen, by `handle_unknown`.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
  /// The values at whose places 1 stands, in their order, as a text: "drama|war". A text is missing where all are 0.
  ///
  /// Errors: `invalid_call` before `fit`; `not_found`; `invalid_data` for rows of another shape, for text, and for what
  ///         is neither 0 nor 1, as probabilities are.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;
  /// Errors: `invalid_data` for what no fit learns; called where JSON is read.
  void check_state() const;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(delimiter), CEREAL_NVP(max_categories), CEREAL_NVP(handle_unknown),
      CEREAL_NVP(categories));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/multi_hot_encoder-inl.hpp>
#endif
