// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
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

RAYTRAIN_INLINE auto count_texts(Column const& column) -> std::map<std::string, std::uint64_t> {
  std::map<std::string, std::uint64_t> counts;
  for_each_text(column, [&](std::string const& text, std::uint64_t count) {
    counts.emplace(text, count);
    return counts.size() <= most_categories;
  });
  return counts;
}

}  // namespace raytrain::detail
