// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <raytrain/core/shard_position.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain {

/// Which rows one worker takes in one step. Good for as long as the `BatchRange` it came from: it holds the order of
/// its rows, and not the rows. A copy costs a reference count.
///
/// Threads: every function from any thread.
class Batch {
 public:
  /// Rows that lie one behind the other.
  struct Block {
    std::uint64_t first;
    std::size_t size;
  };

  Batch(std::span<Column const> columns, Block rows, ShardPosition next, ShardTurn turn = {}) noexcept
      : columns_{columns}, first_{rows.first}, size_{rows.size}, next_{next}, turn_{turn} {}

  /// Rows in any order.
  struct Ordered {
    std::shared_ptr<std::uint64_t const[]> rows;
    std::size_t size;
  };

  Batch(std::span<Column const> columns, Ordered rows, ShardPosition next, ShardTurn turn = {}) noexcept
      : columns_{columns}, rows_{std::move(rows.rows)}, size_{rows.size}, next_{next}, turn_{turn} {}

  /// At least 1.
  [[nodiscard]] auto size() const noexcept -> std::size_t { return size_; }

  /// Number of the dataset's row that is the batch's `i`-th one, `i` below `size()`.
  [[nodiscard]] auto row(std::size_t i) const noexcept -> std::uint64_t { return rows_ ? rows_.get()[i] : first_ + i; }

  /// Where the epoch goes on after this batch: the next epoch's beginning if it is the last. Until the last batch of a
  /// step is taken, at that step's beginning.
  [[nodiscard]] auto next_position() const noexcept -> ShardPosition { return next_; }

  /// Whether it is this worker's last one of a step, behind which parameters are changed. Always true without
  /// `ScalingConfig::virtual_shards`.
  [[nodiscard]] auto ends_step() const noexcept -> bool { return turn_.ends_step(); }

  /// Whether it is not to be counted: this worker has fewer virtual shards than others, and computes as many batches.
  /// Its rows are those of this worker's first shard again. Never true without `ScalingConfig::virtual_shards`.
  [[nodiscard]] auto is_padding() const noexcept -> bool { return turn_.is_padding; }

  /// For which shard it is; what `ShardAverage::add` takes.
  [[nodiscard]] auto turn() const noexcept -> ShardTurn { return turn_; }

  [[nodiscard]] auto columns() const noexcept -> std::span<Column const> { return columns_; }

  /// The column's rows without a copy where they lie one behind the other, as they do unless they are shuffled, or of
  /// both ends of a padded epoch.
  ///
  /// Errors: `not_found` and `invalid_data` as of `Dataset::column` and `Column::as`.
  template <Element T>
  [[nodiscard]] auto contiguous(std::string_view column) const -> std::optional<std::span<T const>> {
    auto const& source = find_column(columns_, column);
    auto const values = source.as<T>();
    if (rows_ != nullptr) return std::nullopt;
    return values.subspan(first_ * source.row_values(), size_ * source.row_values());
  }

  /// Copies the column's rows of this batch one behind the other into `out`, which they must fill exactly.
  ///
  /// Errors: `not_found` and `invalid_data` as of `Dataset::column` and `Column::as`; `invalid_call` when `out` has
  /// another size.
  /// Cost: one memcpy per row, or one in all for unshuffled rows; allocates nothing.
  template <Element T>
  void gather(std::string_view column, std::span<T> out) const {
    auto const& source = find_column(columns_, column);
    source.check_type(element_type<T>);
    gather(source, std::as_writable_bytes(out));
  }

  /// The same for whatever type the column holds, into a buffer of bytes.
  void gather(std::string_view column, std::span<std::byte> out) const { gather(find_column(columns_, column), out); }

  /// The same for one of this batch's `columns()`, looked up once.
  void gather(Column const& column, std::span<std::byte> out) const;

 private:
  std::span<Column const> columns_;
  std::shared_ptr<std::uint64_t const[]> rows_;  // null: as they lie, from `first_` on
  std::uint64_t first_ = 0;
  std::size_t size_;
  ShardPosition next_;
  ShardTurn turn_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/batch-inl.hpp>
#endif
