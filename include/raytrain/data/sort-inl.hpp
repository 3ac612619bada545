// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/order_keys.hpp>
#include <raytrain/data/sort.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto sort(Dataset const& dataset, std::string const& column, SortOptions const& options) -> Dataset {
  auto const& values = dataset.column(column);
  values.check_one_value_a_row("sort");
  return dataset.select(detail::rows_by_key(detail::order_keys(values, options.descending)));
}

}  // namespace raytrain
