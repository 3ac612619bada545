// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

using Numbers = std::vector<float>;

/// Blocks of one row each, whose column "number" holds the block's number, from 0.
[[nodiscard]] inline auto numbered_blocks(std::int32_t count, std::string source = "numbered")
    -> raytrain::DatasetBlocks {
  return {std::move(source), [count, next = std::int32_t{0}]() mutable -> std::optional<raytrain::Dataset> {
            if (next == count) return std::nullopt;
            return raytrain::Dataset::from_columns({{"number", std::vector{static_cast<float>(next++)}}});
          }};
}

/// The column "number" of the blocks, one after the other.
[[nodiscard]] inline auto numbers_in(raytrain::DatasetBlocks blocks) -> Numbers {
  Numbers numbers;
  for (auto const& block : blocks) {
    auto const of_block = block.column("number").as<float>();
    numbers.insert(numbers.end(), of_block.begin(), of_block.end());
  }
  return numbers;
}
