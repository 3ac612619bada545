// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/row.hpp>

namespace raytrain {

/// A copy of the rows for which `keep` is true, in the order in which they lie:
/// `filter(data, [](Row const& row) { return row.get<float>("age") >= 18; })`.
///
/// Errors: what `keep` throws, as `Row::get` does.
template <std::predicate<Row const&> Keep>
[[nodiscard]] auto filter(Dataset const& dataset, Keep keep) -> Dataset {
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < dataset.rows(); ++i) {
    Row const row{dataset, i};
    if (keep(row)) kept.push_back(i);
  }
  return dataset.select(kept);
}

}  // namespace raytrain
