// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/order_keys.hpp>
#include <raytrain/data/sort.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto sort(Dataset const& dataset, std::vector<std::string> const& columns, SortOptions const& options)
    -> Dataset {
  auto const keys = detail::key_columns(dataset, columns, "sort");
  return dataset.select(detail::rows_by_key(detail::order_keys(keys, options.descending)));
}

}  // namespace raytrain
