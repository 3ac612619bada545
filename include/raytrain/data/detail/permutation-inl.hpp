// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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

RAYTRAIN_INLINE auto PermutationCache::get(ShuffleKey key, Block block) const
    -> std::shared_ptr<std::vector<std::uint64_t> const> {
  std::lock_guard const lock{mutex_};
  std::pair const wanted{key, block};
  if (auto const known = orders_.find(wanted); known != orders_.end()) {
    if (auto order = known->second.lock()) return order;
  }
  std::erase_if(orders_, [](auto const& entry) { return entry.second.expired(); });
  auto rows = permutation(key, block.size);
  if (block.first > 0) {
    for (auto& row : rows) row += block.first;
  }
  auto order = std::make_shared<std::vector<std::uint64_t> const>(std::move(rows));
  orders_[wanted] = order;
  return order;
}

}  // namespace raytrain::detail
