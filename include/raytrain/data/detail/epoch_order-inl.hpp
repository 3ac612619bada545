// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/epoch_order.hpp>
#include <raytrain/data/detail/permutation.hpp>

namespace raytrain::detail {

/// For all windows of this process, since they depend on no dataset. Shared: a thread that is left behind may go on
/// when the program's statics are gone.
[[nodiscard]] inline auto cache_of_windows() -> std::shared_ptr<PermutationCache const> {
  static auto const cache = std::make_shared<PermutationCache const>();
  return cache;
}

RAYTRAIN_INLINE EpochOrder::EpochOrder(Windows const& windows)
    : cache_{cache_of_windows()},
      key_{SplitMix64{SplitMix64{windows.key.seed}() + windows.window_rows}(), windows.key.epoch},
      rows_{windows.rows},
      window_rows_{std::min(windows.window_rows, windows.rows)} {
  auto const count = (rows_ - 1) / window_rows_ + 1;
  numbers_ = cache_->get(key_, static_cast<std::size_t>(count));
  missing_ = count * window_rows_ - rows_;
  short_place_ = static_cast<std::uint64_t>(std::ranges::find(*numbers_, count - 1) - numbers_->begin());
  // A step touches so many windows at most, since it may begin and end within one. Padding takes the rows at its begin
  // again, and threads that prefetch overtake each other.
  most_kept_ = static_cast<std::size_t>(std::min(windows.step / window_rows_ + 2, count));
}

RAYTRAIN_INLINE auto EpochOrder::block(std::uint64_t first, std::size_t size) const noexcept
    -> std::optional<std::uint64_t> {
  if (whole_ != nullptr || cache_ != nullptr) return std::nullopt;
  if (first >= rows_) return block(first - rows_, size);
  return size <= rows_ - first ? std::optional{first} : std::nullopt;
}

RAYTRAIN_INLINE auto EpochOrder::rows(std::uint64_t first, std::size_t size) const -> Rows {
  if (first >= rows_) return rows(first - rows_, size);
  if (size > rows_ - first) return rows_around_end(first, size);
  if (whole_ != nullptr) return {whole_, whole_->data() + first};
  if (cache_ != nullptr) return rows_of_windows(first, size);
  auto as_they_lie = std::make_shared<std::uint64_t[]>(size);
  std::iota(as_they_lie.get(), as_they_lie.get() + size, first);
  return as_they_lie;
}

RAYTRAIN_INLINE auto EpochOrder::rows_around_end(std::uint64_t first, std::size_t size) const -> Rows {
  auto const before = static_cast<std::size_t>(rows_ - first);
  auto joined = std::make_shared<std::uint64_t[]>(size);
  std::copy_n(rows(first, before).get(), before, joined.get());
  std::copy_n(rows(0, size - before).get(), size - before, joined.get() + before);
  return joined;
}

RAYTRAIN_INLINE auto EpochOrder::rows_of_windows(std::uint64_t first, std::size_t size) const -> Rows {
  auto place = place_of(first);
  auto within = static_cast<std::size_t>(first - begin_of(place));
  auto rows = window(place);
  if (size <= rows->size() - within) return {rows, rows->data() + within};
  auto joined = std::make_shared<std::uint64_t[]>(size);
  for (std::size_t done = 0;;) {
    auto const count = std::min(size - done, rows->size() - within);
    std::copy_n(rows->data() + within, count, joined.get() + done);
    done += count;
    if (done == size) return joined;
    rows = window(++place);
    within = 0;
  }
}

RAYTRAIN_INLINE auto EpochOrder::window(std::uint64_t place) const -> Window {
  {
    std::lock_guard const lock{mutex_};
    if (auto const kept = kept_.find(place); kept != kept_.end()) return kept->second;
  }
  auto const number = (*numbers_)[static_cast<std::size_t>(place)];
  auto const first = number * window_rows_;
  auto const size = static_cast<std::size_t>(std::min(window_rows_, rows_ - first));
  auto rows = cache_->get({SplitMix64{key_.seed + number}(), key_.epoch}, {.first = first, .size = size});
  std::lock_guard const lock{mutex_};
  kept_.emplace(place, rows);
  while (kept_.size() > most_kept_) {  // the one that is farthest from what is taken now
    auto const last = std::prev(kept_.end());
    kept_.erase(last->first - place > place - kept_.begin()->first ? last : kept_.begin());
  }
  return rows;
}

}  // namespace raytrain::detail
