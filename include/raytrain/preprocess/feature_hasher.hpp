// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain {

/// Makes one column of row shape {num_features}, float32, of several: a text in column "city" adds 1 to the place that
/// the hash of "city=Oslo" gives, a number in column "age" adds itself to that of "age". Those columns are dropped.
///
/// There is nothing to learn, so any number of different texts will do; those of one place cannot be told apart. A text
/// that is missing, and NaN, add nothing. The hash is XXH3-64 with the seed 0, modulo `num_features`: scikit-learn's
/// FeatureHasher has MurmurHash3, which gives other places, and changes the sign of half of them, where this one
/// counts.
///
/// Source: K. Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", ICML 2009, without the sign.
struct FeatureHasher {
  static constexpr std::string_view type_name = "FeatureHasher";

  std::vector<std::string> columns{};             ///< At least one, of one value a row.
  std::size_t num_features = 256;                 ///< From 1 to 1,048,576.
  std::string output_column = "hashed_features";  ///< Not that of another column.

  /// Looks at the rows, and learns nothing. Errors: as `transform`.
  void fit(FitRows const& rows) { (void)made_of(rows.layout(), "FeatureHasher::fit"); }
  [[nodiscard]] static auto is_fitted() -> bool { return true; }
  /// Errors: `invalid_config` for no column, one that is named twice, and for other settings out of their range;
  ///         `not_found`; `invalid_data` for several values a row, and where another column has the output's name.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset {
    return made_of(dataset, "FeatureHasher::transform");
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(num_features), CEREAL_NVP(output_column));
  }

 private:
  [[nodiscard]] auto made_of(Dataset const& dataset, char const* attempted) const -> Dataset;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/feature_hasher-inl.hpp>
#endif
