// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto permutation(ShuffleKey key, std::size_t rows) -> std::vector<std::uint64_t> {
  std::vector<std::uint64_t> order(rows);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  Xoshiro256PlusPlus random{key};
  for (std::size_t i = 0; i + 1 < rows; ++i) std::swap(order[i], order[i + random.below(rows - i)]);
  return order;
}

}  // namespace raytrain::detail
