// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/detail/added_counts.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_categories(std::size_t categories, std::string const& column, std::string const& attempted) {
  if (categories <= most_categories) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has more than {} different values", column, most_categories),
              "name a column of categories; FeatureHasher and HashingVectorizer take any number of texts"};
}

}  // namespace raytrain::detail
