// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/detail/made_column.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto with_made_column(Dataset const& dataset, std::vector<std::string> const& dropped, Column made,
                                      std::string const& attempted) -> Dataset {
  std::unordered_set<std::string_view> const left_out{dropped.begin(), dropped.end()};
  std::vector<Column> columns;
  for (auto const& column : dataset.columns()) {
    if (left_out.contains(column.name())) continue;
    if (column.name() == made.name()) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("the dataset has a column '{}' already, which stays beside what is made", made.name()),
                  "give the output another name"};
    }
    columns.push_back(column);
  }
  columns.push_back(std::move(made));
  return Dataset::from_columns(std::move(columns));
}

}  // namespace raytrain::detail
