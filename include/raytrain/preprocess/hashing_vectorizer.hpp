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

/// Makes of each column of text one of row shape {num_features}, float32, that counts its words: each adds 1 to the
/// place that its hash gives.
///
/// Words are as of `CountVectorizer`. There is nothing to learn, so any number of different words will do; those of one
/// place cannot be told apart. A text that is missing has no word. The hash is XXH3-64 with the seed 0, modulo
/// `num_features`: scikit-learn's HashingVectorizer has MurmurHash3, which gives other places, changes the sign of half
/// of them, and scales each row to length 1.
struct HashingVectorizer {
  static constexpr std::string_view type_name = "HashingVectorizer";

  std::vector<std::string> columns{};  ///< At least one, of text.
  std::size_t num_features = 256;      ///< From 1 to 1,048,576.

  /// Looks at the rows, and learns nothing. Errors: as `transform`.
  void fit(FitRows const& rows) { (void)made_of(rows.layout(), "HashingVectorizer::fit"); }
  [[nodiscard]] static auto is_fitted() -> bool { return true; }
  /// Errors: `invalid_config` for no column, one that is named twice, and for `num_features` out of its range;
  ///         `not_found`; `invalid_data` for a column of numbers.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset {
    return made_of(dataset, "HashingVectorizer::transform");
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(columns), CEREAL_NVP(num_features));
  }

 private:
  [[nodiscard]] auto made_of(Dataset const& dataset, char const* attempted) const -> Dataset;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/hashing_vectorizer-inl.hpp>
#endif
