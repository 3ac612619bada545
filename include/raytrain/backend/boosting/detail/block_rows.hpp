// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain::detail {

/// Rows of blocks, of which one is in memory at a time, in batches that a library that boosts trees can take at once.
/// They can be gone through several times: the blocks are made anew each time. `Value`: the features' type.
///
/// Threads: one at a time.
template <class Value>
class BlockRows {
 public:
  /// Takes the first block with rows. `owner`: the class that errors name.
  ///
  /// Errors: as `FeatureTable`, of the first block; `invalid_data` for no rows; `invalid_call` for an empty function;
  ///         what the blocks' reader throws.
  BlockRows(MakeBlocks make, FeatureTable::Roles roles, std::string owner)
      : make_{std::move(make)}, roles_{std::move(roles)}, owner_{std::move(owner)} {
    if (!make_) throw Error{Errc::invalid_call, owner_, "the function that makes blocks is empty", "give one"};
    begin_pass();
    if (!take_block()) refuse("there are no rows", "give at least one; where a worker has none, use fewer workers");
    names_ = table_->names();
    is_categorical_ = table_->is_categorical();
    constexpr std::size_t most_values = std::size_t{4} << 20U;
    most_rows_ = std::clamp<std::size_t>(most_values / names_.size(), 1, 65536);
  }

  [[nodiscard]] auto roles() const noexcept -> FeatureTable::Roles const& { return roles_; }
  /// Of the features.
  [[nodiscard]] auto names() const noexcept -> std::vector<std::string> const& { return names_; }
  /// As `FeatureTable::is_categorical`.
  [[nodiscard]] auto is_categorical() const noexcept -> std::vector<bool> const& { return is_categorical_; }

  /// Begins with the first row again.
  void rewind() noexcept {
    if (next_ == 0) return;  // the first block is there already
    next_ = 0;
    is_first_pass_ = false;
    table_.reset();
    blocks_.reset();
  }

  /// Makes the next batch; false behind the last one.
  ///
  /// Errors: as the constructor, of this block, with its rows; `invalid_data` for other features than those of the
  ///         first block, and for other rows than at first.
  auto next() -> bool {
    if (!blocks_) begin_pass();
    if ((!table_ || at_ == table_->rows()) && !take_block()) {
      if (next_ < batches_.size()) refuse_change(fmt::format("there are {} rows, and more at first", first_of_block_));
      return false;
    }
    first_of_batch_ = at_;
    rows_ = std::min(most_rows_, table_->rows() - at_);
    values_ = table_->template row_major<Value>(at_, rows_);
    Batch const batch{rows_, digest()};
    if (is_first_pass_) {
      batches_.push_back(batch);
    } else if (next_ == batches_.size() || batches_[next_] != batch) {
      refuse_change(fmt::format("{} are others than at first", rows_text(at_, rows_)));
    }
    at_ += rows_;
    ++next_;
    return true;
  }

  /// Of all rows, with their labels and weights, that were gone through at first.
  [[nodiscard]] auto rows_digest() const -> std::uint64_t {
    std::vector<std::uint64_t> digests;
    for (auto const& batch : batches_) digests.push_back(batch.digest);
    return xxh3_64_of(std::as_bytes(std::span{digests}));
  }

  /// Number of the batch's first row, counted from the first block's first one.
  [[nodiscard]] auto first_row() const noexcept -> std::size_t { return first_of_block_ + first_of_batch_; }
  /// Of the batch.
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }
  /// Of the batch's features, row by row.
  [[nodiscard]] auto values() const noexcept -> std::span<Value const> { return values_; }
  /// Of the batch; empty without a label.
  [[nodiscard]] auto labels() const -> std::span<float const> { return of_batch(labels_); }
  /// Of the batch; empty without a weight.
  [[nodiscard]] auto weights() const -> std::span<float const> { return of_batch(weights_); }

 private:
  struct Batch {
    std::size_t rows;
    std::uint64_t digest;
    auto operator==(Batch const&) const -> bool = default;
  };

  [[noreturn]] void refuse(std::string happened, std::string remedy) const {
    throw Error{Errc::invalid_data, owner_, std::move(happened), std::move(remedy)};
  }

  [[noreturn]] void refuse_change(std::string happened) const {
    throw Error{Errc::invalid_data, owner_ + ", reading the rows once more", std::move(happened),
                "let the function give the same blocks each time, and nobody change the files meanwhile"};
  }

  void begin_pass() {
    blocks_ = make_();
    blocks_->check_is_fresh(owner_ + ", beginning with the first block");
    if (!first_) first_ = blocks_;
    first_->check_is_unchanged();  // which names a file
    if (blocks_->source() != first_->source())
      refuse_change(fmt::format("their source was {}, and is {}", first_->source(), blocks_->source()));
    first_of_block_ = 0;
    at_ = 0;
  }

  /// The next block that has rows; false behind the last one.
  auto take_block() -> bool {
    first_of_block_ += table_ ? table_->rows() : 0;
    table_.reset();
    at_ = 0;
    while (auto const block = blocks_->next()) {
      if (block->rows() == 0) continue;
      look_at(*block);
      if (names_.empty() || table_->names() == names_) return true;
      refuse(difference_of_features(), "give all blocks the same columns");
    }
    return false;
  }

  /// Between the block at hand and those before it.
  [[nodiscard]] auto difference_of_features() const -> std::string {
    constexpr std::size_t most_listed = 20;
    auto const& names = table_->names();
    if (names.size() <= most_listed && names_.size() <= most_listed) {
      return fmt::format("row {} has the features {}, and those before it have {}", first_of_block_,
                         fmt::join(names, ", "), fmt::join(names_, ", "));
    }
    auto const [here, before] = std::ranges::mismatch(names, names_);
    auto const name = [](auto at, auto const& all) { return at == all.end() ? "none" : fmt::format("'{}'", *at); };
    return fmt::format("row {} has {} features, and those before it have {}: its feature {} is {}, and theirs is {}",
                       first_of_block_, names.size(), names_.size(), here - names.begin(), name(here, names),
                       name(before, names_));
  }

  void look_at(Dataset const& block) {
    try {
      table_.emplace(block, roles_, owner_);
      labels_ = table_->labels();
      weights_ = table_->weights();
    } catch (Error const& error) {
      throw Error{error.code(), fmt::format("{} of {}", error.attempted(), rows_text(0, block.rows())),
                  error.happened(), error.remedy()};
    }
  }

  /// "rows 65536 to 131071", counted from the first block's first one.
  [[nodiscard]] auto rows_text(std::size_t from, std::size_t rows) const -> std::string {
    return fmt::format("rows {} to {}", first_of_block_ + from, first_of_block_ + from + rows - 1);
  }

  [[nodiscard]] auto digest() const -> std::uint64_t {
    auto const of = [](auto values) { return xxh3_64_of(std::as_bytes(values)); };
    return of(values()) ^ std::rotl(of(labels()), 1) ^ std::rotl(of(weights()), 2);
  }

  /// Empty of what is empty.
  [[nodiscard]] auto of_batch(std::span<float const> of_block) const -> std::span<float const> {
    return of_block.empty() ? of_block : of_block.subspan(first_of_batch_, rows_);
  }

  MakeBlocks make_;
  FeatureTable::Roles roles_;
  std::string owner_;
  std::vector<std::string> names_;
  std::vector<bool> is_categorical_;
  std::size_t most_rows_ = 0;  ///< Of a batch.

  std::optional<DatasetBlocks> first_;  ///< Those that were gone through first.
  std::vector<Batch> batches_;          ///< What they were.
  bool is_first_pass_ = true;

  std::optional<DatasetBlocks> blocks_;  ///< Those that are gone through; unset before the first one.
  std::size_t next_ = 0;                 ///< Batch of them.
  std::size_t first_of_block_ = 0;       ///< Row of them all with which the block at hand begins.
  std::optional<FeatureTable> table_;    ///< The block at hand.
  std::vector<float> labels_;            ///< Of the block at hand.
  std::vector<float> weights_;           ///< Of the block at hand.
  std::size_t at_ = 0;                   ///< Row of it behind the batch.
  std::size_t first_of_batch_ = 0;       ///< Row of it with which the batch begins.
  std::size_t rows_ = 0;                 ///< Of the batch.
  std::vector<Value> values_;            ///< Of the batch.
};

}  // namespace raytrain::detail
