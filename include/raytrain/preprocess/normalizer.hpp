// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// What the length of a row is.
enum class Norm {
  l1,   ///< Sum of the absolute values.
  l2,   ///< Square root of the sum of the squares.
  max,  ///< Largest absolute value.
};

constexpr auto enum_names(Norm /*any*/) noexcept { return std::array<std::string_view, 3>{"l1", "l2", "max"}; }

/// Brings each row to length 1: divides the values of its columns by the norm of them all.
///
/// Nothing is learnt: `fit` looks at the settings alone. A row of zeros stays. NaN stands for a missing value, which
/// adds nothing to the length, and stays. Of float64 it makes float64, of any other type float32. Lengths are not kept,
/// so that there is no way back.
struct Normalizer {
  static constexpr std::string_view type_name = "Normalizer";

  std::vector<std::string> columns{};  ///< At least one, which are a row together.
  Norm norm = Norm::l2;

  /// Errors: `invalid_config` for no column, or one that is named twice; `not_found` for one that is not there;
  ///         `invalid_data` for one of text.
  void fit(FitRows const& rows);
  [[nodiscard]] static auto is_fitted() -> bool { return true; }
  /// Errors: as `fit`; also `invalid_data` for a row whose norm float64 has not, with its number.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(norm));
  }
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/normalizer-inl.hpp>
#endif
