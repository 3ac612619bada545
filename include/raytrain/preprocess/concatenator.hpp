// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/message/named_enum.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Joins columns of numbers into one, behind the others, whose row holds the values of each in their order: what a
/// model takes as its input.
///
/// It learns names alone, and those only where `columns` has none: each dataset may have rows of other shapes. float32
/// rounds whole numbers beyond 2^24.
struct Concatenator {
  static constexpr std::string_view type_name = "Concatenator";
  static constexpr bool learns_names_alone = true;  ///< So that `Chain::fit` makes no rows for it.

  /// Of numbers, of any row shape; none: all of numbers that the rows of `fit` have but `exclude`, in the order in
  /// which they lie there. Other rows may have them in any order, and more columns, which stay as they are.
  std::vector<std::string> columns{};
  std::string output_column_name = "features";  ///< Not that of another column.
  ElementType dtype = ElementType::float32;     ///< Or float64.
  bool keep_columns = false;                    ///< Whether the columns stay beside the one that is made of them.
  /// Where `columns` names none: to be left as they are, as labels and keys. Rows to be predicted need not have them.
  std::vector<std::string> exclude{};
  std::vector<std::string> learnt_columns{};  ///< By `fit`, where `columns` names none: those that are joined.

  /// Looks at the columns. Errors: as `transform`; `not_found` for a column of `exclude`; `invalid_data` where no
  /// column is of numbers.
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool { return !columns.empty() || !learnt_columns.empty(); }
  /// Errors: `invalid_config` for a column that is named twice, `exclude` beside `columns`, and for other settings out
  ///         of their range; `not_found` for a column that is not there; `invalid_data` for a column of text, and where
  ///         another column has the output's name; `invalid_call` before `fit` where `columns` names none.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(output_column_name), CEREAL_NVP(dtype), CEREAL_NVP(keep_columns),
      CEREAL_NVP(exclude), CEREAL_NVP(learnt_columns));
  }

 private:
  /// The names of those that are joined of rows to learn from.
  [[nodiscard]] auto chosen(Dataset const& dataset, char const* attempted) const -> std::vector<std::string>;

  [[nodiscard]] auto made_of(Dataset const& dataset, std::vector<std::string> const& names, char const* attempted) const
      -> Dataset;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/concatenator-inl.hpp>
#endif
