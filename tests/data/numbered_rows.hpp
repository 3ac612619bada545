// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <raytrain/data/dataset.hpp>

using Rows = std::vector<std::uint64_t>;

/// Rows whose column "number" counts them, from 0.
[[nodiscard]] inline auto numbered(std::size_t rows) -> raytrain::Dataset {
  std::vector<std::int64_t> values(rows);
  std::iota(values.begin(), values.end(), 0);
  return raytrain::Dataset::from_columns({{"number", std::move(values)}});
}
