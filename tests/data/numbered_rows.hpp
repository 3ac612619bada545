// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <raytrain/data/batch.hpp>
#include <raytrain/data/dataset.hpp>

using Rows = std::vector<std::uint64_t>;

/// Rows whose column "number" counts them, from 0.
[[nodiscard]] inline auto numbered(std::size_t rows) -> raytrain::Dataset {
  std::vector<std::int64_t> values(rows);
  std::iota(values.begin(), values.end(), 0);
  return raytrain::Dataset::from_columns({{"number", std::move(values)}});
}

/// Their numbers.
[[nodiscard]] inline auto numbers_of(raytrain::Dataset const& dataset) -> std::vector<std::int64_t> {
  auto const values = dataset.column("number").as<std::int64_t>();
  return {values.begin(), values.end()};
}

/// Where the rows of a batch lie in the dataset.
[[nodiscard]] inline auto rows_of(raytrain::Batch const& batch) -> Rows {
  Rows rows;
  for (std::size_t i = 0; i < batch.size(); ++i) rows.push_back(batch.row(i));
  return rows;
}
