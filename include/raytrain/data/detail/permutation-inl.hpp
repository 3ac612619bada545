// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
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
  // Drawn some places ahead, so that the memory of many rows comes while others are swapped: half of the time.
  std::array<std::size_t, 32> partners;
  Xoshiro256PlusPlus random{key};
  auto const draw = [&](std::size_t at) {
    auto const partner = at + random.below(rows - at);
    __builtin_prefetch(&order[partner], 1);
    partners[at % partners.size()] = partner;
  };
  for (std::size_t i = 0; i < std::min(rows, partners.size()); ++i) draw(i);
  for (std::size_t i = 0; i < rows; ++i) {
    std::swap(order[i], order[partners[i % partners.size()]]);
    if (i + partners.size() < rows) draw(i + partners.size());
  }
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
