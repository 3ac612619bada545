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

  std::vector<std::string> columns{};           ///< At least one, of numbers, of any row shape.
  std::string output_column_name = "features";  ///< Not that of another column.
  ElementType dtype = ElementType::float32;     ///< Or float64.
  bool keep_columns = false;                    ///< Whether the columns stay beside the one that is made of them.

  /// Looks at the rows, and learns nothing. Errors: as `transform`.
  void fit(FitRows const& rows) { (void)made_of(rows.dataset().head(0), "Concatenator::fit"); }
  [[nodiscard]] static auto is_fitted() -> bool { return true; }
  /// Errors: `invalid_config` for no column, one that is named twice, and for other settings out of their range;
  ///         `not_found`; `invalid_data` for a column of text, and where another column has the output's name.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset {
    return made_of(dataset, "Concatenator::transform");
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(output_column_name), CEREAL_NVP(dtype), CEREAL_NVP(keep_columns));
  }

 private:
  [[nodiscard]] auto made_of(Dataset const& dataset, char const* attempted) const -> Dataset;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/concatenator-inl.hpp>
#endif
