// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/detail/permutation_cache.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto PermutationCache::get(ShuffleKey key, std::size_t rows) const
    -> std::shared_ptr<std::vector<std::uint64_t> const> {
  std::lock_guard const lock{mutex_};
  if (auto const known = orders_.find(key); known != orders_.end()) {
    if (auto order = known->second.lock()) return order;
  }
  std::erase_if(orders_, [](auto const& entry) { return entry.second.expired(); });
  auto order = std::make_shared<std::vector<std::uint64_t> const>(permutation(key, rows));
  orders_[key] = order;
  return order;
}

}  // namespace raytrain::detail
