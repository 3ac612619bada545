// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// The bins that a matrix keeps in place of its values, and those that take the same ones with it.
struct MatrixBins {
  int max_bin;
  std::vector<std::string> features;
  std::vector<std::string> types;           ///< One for each feature: "c" of categories, "q" of numbers.
  std::vector<float> largest_categories{};  ///< One for each feature, -1 of numbers; empty: no rows of blocks.
  std::string digest{};                     ///< Of what they follow from; empty: no rows of blocks.

  /// Whether rows of these features and options may take these bins: XGBoost looks at the number of features alone.
  ///
  /// Errors: `invalid_data`, naming the first feature that is another one.
  void check_fit(std::vector<std::string> const& names, std::vector<std::string> const& their_types) const {
    auto const refuse = [](std::string happened) {
      throw Error{Errc::invalid_data, "DMatrix with the bins of a reference", std::move(happened),
                  "give the columns of the rows to train on, in their order, with the same categorical ones"};
    };
    if (names.size() != features.size()) {
      refuse(fmt::format("it has {} features, and the reference has {}", names.size(), features.size()));
    }
    auto const kind = [](std::string_view type) { return type == "c" ? "categories" : "numbers"; };
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != features[i]) {
        refuse(fmt::format("its feature {} is '{}', and that of the reference '{}'", i, names[i], features[i]));
      }
      if (their_types[i] != types[i]) {
        refuse(fmt::format("its feature '{}' has {}, and that of the reference {}", names[i], kind(their_types[i]),
                           kind(types[i])));
      }
    }
  }
};

}  // namespace raytrain::detail
