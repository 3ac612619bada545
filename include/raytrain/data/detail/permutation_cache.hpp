// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

/// Lets the workers of one process share the order of an epoch. Holds none itself: an order ends with its last user.
///
/// Threads: every function from any thread; who asks for an order while it is computed waits for it.
class PermutationCache {
 public:
  /// `rows` is the same in every call.
  [[nodiscard]] auto get(ShuffleKey key, std::size_t rows) const -> std::shared_ptr<std::vector<std::uint64_t> const>;

 private:
  mutable std::mutex mutex_;
  mutable std::map<ShuffleKey, std::weak_ptr<std::vector<std::uint64_t> const>> orders_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/permutation_cache-inl.hpp>
#endif
