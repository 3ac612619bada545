// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

/// Lets the workers of one process share the order of an epoch. Holds none itself: an order ends with its last user.
///
/// Threads: every function from any thread; who asks for an order while it is computed waits for it.
class PermutationCache {
 public:
  /// `rows` is the same in every call.
  [[nodiscard]] auto get(ShuffleKey key, std::size_t rows) const -> std::shared_ptr<std::vector<std::uint64_t> const> {
    std::lock_guard const lock{mutex_};
    if (auto const known = orders_.find(key); known != orders_.end()) {
      if (auto order = known->second.lock()) return order;
    }
    std::erase_if(orders_, [](auto const& entry) { return entry.second.expired(); });
    auto order = std::make_shared<std::vector<std::uint64_t> const>(permutation(key, rows));
    orders_[key] = order;
    return order;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<ShuffleKey, std::weak_ptr<std::vector<std::uint64_t> const>> orders_;
};

}  // namespace raytrain::detail
