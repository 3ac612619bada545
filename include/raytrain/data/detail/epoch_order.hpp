// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

/// The order in which an epoch has the rows of a dataset: random of all rows as one, random window by window, or as
/// they lie. Behind the last sample comes the first one again, for epochs that are padded.
///
/// Windows are rows that lie one behind the other, equally many in each but the last one. They come in a random order,
/// and so do the rows of each. Workers of one process share the windows that they hold at the same time.
///
/// Threads: every function from any thread.
class EpochOrder {
 public:
  /// Numbers of rows, which stay for as long as somebody holds them.
  using Rows = std::shared_ptr<std::uint64_t const[]>;

  struct Windows {
    ShuffleKey key{};
    std::uint64_t rows{1};         ///< Of the dataset, at least 1.
    std::uint64_t window_rows{1};  ///< At least 1.
    std::uint64_t step{};          ///< Samples of a global batch, whose windows are kept.
  };

  /// So many rows, at least 1, as they lie.
  struct AsTheyLie {
    std::uint64_t rows{1};
  };

  explicit EpochOrder(AsTheyLie of) noexcept : rows_{of.rows} {}

  /// All rows as one.
  explicit EpochOrder(std::shared_ptr<std::vector<std::uint64_t> const> whole) noexcept
      : whole_{std::move(whole)}, rows_{whole_->size()} {}

  /// Window by window. Both orders follow from the key, the rows of a window, and for the rows from the window's
  /// number.
  explicit EpochOrder(Windows const& windows);

  /// The row of the sample `first`, where those of [first, first + size) lie one behind the other as rows of a block
  /// do. None where they are shuffled, or on both sides of the end.
  [[nodiscard]] auto block(std::uint64_t first, std::size_t size) const noexcept -> std::optional<std::uint64_t>;

  /// Those of the samples [first, first + size), of which no row is to come twice.
  ///
  /// Cost: of all rows as one, and within a window that is kept, a reference count. A window that none holds is
  ///       computed. Samples of several windows, those as they lie, and those on both sides of the end are copied.
  [[nodiscard]] auto rows(std::uint64_t first, std::size_t size) const -> Rows;

 private:
  using Window = std::shared_ptr<std::vector<std::uint64_t> const>;

  /// Those on both sides of the end.
  [[nodiscard]] auto rows_around_end(std::uint64_t first, std::size_t size) const -> Rows;

  [[nodiscard]] auto rows_of_windows(std::uint64_t first, std::size_t size) const -> Rows;

  /// The window that comes as the `place`-th one.
  [[nodiscard]] auto window(std::uint64_t place) const -> Window;

  [[nodiscard]] auto place_of(std::uint64_t sample) const noexcept -> std::uint64_t {
    return (sample < short_place_ * window_rows_ ? sample : sample + missing_) / window_rows_;
  }

  /// The window's first sample.
  [[nodiscard]] auto begin_of(std::uint64_t place) const noexcept -> std::uint64_t {
    return place * window_rows_ - (place > short_place_ ? missing_ : 0);
  }

  std::shared_ptr<std::vector<std::uint64_t> const> whole_{};
  std::shared_ptr<PermutationCache const> cache_{};
  ShuffleKey key_{};  // of the windows' order
  std::uint64_t rows_ = 0;
  std::uint64_t window_rows_ = 1;
  Window numbers_{};               // of the windows, as they come
  std::uint64_t missing_ = 0;      // rows of the last window that there are not
  std::uint64_t short_place_ = 0;  // at which that one comes
  std::size_t most_kept_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, Window> kept_{};  // by place, so that batches that follow find them
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/epoch_order-inl.hpp>
#endif
