// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <system_error>
#include <vector>

#include <raytrain/data/ordered_prefetch.hpp>
#include <raytrain/data/prefetch_options.hpp>

namespace raytrain::detail {

/// `make(0)`, `make(1)` and so on, made in as many threads; by the caller alone where the system has no more of them.
///
/// Errors: what `make` throws, of several the one of the lowest index.
template <std::move_constructible T>
[[nodiscard]] auto made_in_order(std::size_t size, int threads, std::function<T(std::size_t index)> const& make)
    -> std::vector<T> {
  std::optional<OrderedPrefetch<T>> ahead;
  if (threads > 1 && size > 1) {
    try {
      ahead.emplace(size, PrefetchOptions{.threads = threads}, [&](auto const& run) { run(make); });
    } catch (std::system_error const&) {
      // There are no more threads.
    }
  }
  std::vector<T> made;
  made.reserve(size);
  for (std::size_t i = 0; i < size; ++i) made.push_back(ahead ? ahead->take() : make(i));
  return made;
}

}  // namespace raytrain::detail
