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
/// There is nothing to learn: each dataset may have rows of other shapes. float32 rounds whole numbers beyond 2^24.
struct Concatenator {
  static constexpr std::string_view type_name = "Concatenator";

  /// Of numbers, of any row shape; none: all of numbers that a dataset has but `exclude`, as they lie there. A dataset
  /// that has others than the training rows then makes other rows.
  std::vector<std::string> columns{};
  std::string output_column_name = "features";  ///< Not that of another column.
  ElementType dtype = ElementType::float32;     ///< Or float64.
  bool keep_columns = false;                    ///< Whether the columns stay beside the one that is made of them.
  /// Where `columns` names none: to be left as they are, as labels and keys. Rows to be predicted need not have them.
  std::vector<std::string> exclude{};

  /// Looks at the rows, and learns nothing. Errors: as `transform`; `not_found` for a column of `exclude`.
  void fit(FitRows const& rows);
  [[nodiscard]] static auto is_fitted() -> bool { return true; }
  /// Errors: `invalid_config` for a column that is named twice, `exclude` beside `columns`, and for other settings out
  ///         of their range; `not_found`; `invalid_data` for a column of text, where there is none of numbers, and
  ///         where another column has the output's name.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset {
    return made_of(dataset, "Concatenator::transform");
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(output_column_name), CEREAL_NVP(dtype), CEREAL_NVP(keep_columns),
      CEREAL_NVP(exclude));
  }

 private:
  /// The names of those that are joined.
  [[nodiscard]] auto chosen(Dataset const& dataset, char const* attempted) const -> std::vector<std::string>;

  [[nodiscard]] auto made_of(Dataset const& dataset, char const* attempted) const -> Dataset;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/concatenator-inl.hpp>
#endif
