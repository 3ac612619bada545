// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <raytrain/core/element_type.hpp>

namespace raytrain {

/// An array of one dimension that is spread over the ranks, as a checkpoint has it: in slices, of any lengths.
struct ShardedArray {
  ElementType type{};
  std::uint64_t total{};  ///< Elements of all slices together.
  friend auto operator==(ShardedArray const&, ShardedArray const&) -> bool = default;
};

/// Where a slice of such an array lies.
struct SlicePlace {
  std::uint64_t begin{};  ///< Elements before it.
  std::uint64_t total{};  ///< As in `ShardedArray`.
};

}  // namespace raytrain
