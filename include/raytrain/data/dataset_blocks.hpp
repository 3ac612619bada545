// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// Which blocks of a range are taken, by their numbers from 0 on: `first`, and then every `stride`-th. The others are
/// skipped.
struct BlockTurns {
  std::uint64_t first = 0;
  std::uint64_t stride = 1;  ///< From 1.

  [[nodiscard]] auto takes(std::uint64_t block) const noexcept -> bool {
    return block >= first && (block - first) % stride == 0;
  }

  /// The same turns by numbers that begin with 0 at the block that has now this number.
  [[nodiscard]] auto behind(std::uint64_t blocks) const noexcept -> BlockTurns {
    if (first >= blocks) return {first - blocks, stride};
    return {(stride - (blocks - first) % stride) % stride, stride};
  }
};

/// How workers share blocks.
struct BlockSharing {
  /// True: all have equally many, so that a loop over them may report and call collectives. The blocks of the last turn
  /// are left out where not every worker has one. False: some have one more than others.
  bool equal = false;
};

/// Rows that come block by block, each a `Dataset`, so that one block is in memory at a time. What takes them all, as
/// `materialize`, requires the same columns in each. An input range:
///
///     for (raytrain::Dataset const& block : raytrain::csv_blocks("clicks/*.csv")) ...
///
/// It is gone through once, and copies share their place. Take blocks from a range or from one `map`, `shard` or
/// `prefetch` of it, not from both: the other one throws `invalid_call`.
/// Threads: one at a time.
class DatasetBlocks {
 public:
  /// The next block, or none behind the last one; it is not called again then.
  using Next = std::function<std::optional<Dataset>()>;

  /// Passes over the next block, or returns false behind the last one; it is not called again then, and neither is
  /// `Next`. They are called one after the other, in any order.
  using Skip = std::function<bool()>;

  /// Called once, before the first block is taken or skipped, with those that are going to be taken, so that who makes
  /// blocks ahead leaves out the others. Also of these the program may skip some.
  using Expect = std::function<void(BlockTurns const& turns)>;

  /// What may be said besides of blocks that a function makes.
  struct Options {
    /// Throws where the rows would be others now, as of a file that was changed; empty: they never are.
    std::function<void()> check{};
    /// For blocks that are other workers' or before a position, where that takes less than to make them; empty: they
    /// are made and dropped.
    Skip skip{};
    Expect expect{};  ///< May be empty.
  };

  /// `source`: what the rows follow from, so that two ranges with the same one have the same rows: "simulation 7,
  /// version 2". `materialize` asks for it.
  ///
  /// Errors: `invalid_call` for a source that is empty or not UTF-8.
  DatasetBlocks(std::string source, Next next, Options options);
  DatasetBlocks(std::string source, Next next) : DatasetBlocks{std::move(source), std::move(next), Options{}} {}

  /// One block, whose source is a digest of all of its bytes, which are read for it.
  DatasetBlocks(Dataset const& dataset);

  [[nodiscard]] auto source() const noexcept -> std::string const& { return source_; }

  /// What `function` makes of each block, which may have other rows and columns. It is not called for blocks that are
  /// skipped, as those of other workers. `name`, "scaled by 2", becomes part of the source: whoever changes the
  /// function changes it.
  ///
  /// Errors: `invalid_call` for a name that is empty or not UTF-8, for no function, and behind `begin_at`.
  [[nodiscard]] auto map(std::string const& name, std::function<Dataset(Dataset const& block)> function) const
      -> DatasetBlocks;

  /// A worker's blocks where workers take turns: every `workers`-th, beginning with block `rank`. The others are
  /// skipped.
  ///
  /// Errors: `invalid_call` for a rank that is not below the number of workers, and behind `begin_at`.
  [[nodiscard]] auto shard(Rank rank, WorldSize workers, BlockSharing sharing = {}) const -> DatasetBlocks;

  /// The same blocks, made by a thread, up to `blocks` ahead of the one that the program works with. Call it last,
  /// after `map` and `shard`, whose functions run in that thread then. So many more blocks are in memory.
  ///
  /// Cancel: the thread ends with the range, which waits for the block that is being made right then.
  /// Errors: `invalid_call` for a number that is not from 1 to 1024, and behind `begin_at`; `std::system_error` from
  ///         the first `next` where the system has no thread.
  [[nodiscard]] auto prefetch(int blocks = 2) const -> DatasetBlocks;

  /// Behind the block that was taken last, in the epoch at which `begin_at` has begun, or in epoch 0. Behind the last
  /// block it stays there: the next epoch begins at `BlocksPosition{.epoch = position.epoch + 1}`, with a range that is
  /// made anew. A training that keeps it in its checkpoints goes on at the next block:
  ///
  ///     for (; position.epoch < epochs; position = {.epoch = position.epoch + 1}) {
  ///       auto const all = raytrain::csv_blocks("clicks/*.csv");
  ///       auto blocks = all.shard(ctx.world_rank(), ctx.world_size(), {.equal = true});
  ///       blocks.begin_at(position);
  ///       for (auto const& block : blocks) {
  ///         ...
  ///         position = blocks.position();
  ///         ctx.report(Progress{...}, save(state));  // of TrainingState{model, optimizer, {"position", position}}
  ///       }
  ///     }
  ///
  /// Workers that have taken equally many blocks of their `shard` have the same position, which is good for any number
  /// of workers.
  [[nodiscard]] auto position() const -> BlocksPosition { return state_->position; }

  /// The next block is that behind the position, which such a range has given, with the same files, options and names
  /// of `map`. That of an epoch's beginning is good for any blocks. Call it after `map`, `shard` and `prefetch`.
  ///
  /// Errors: `invalid_call` where some of the blocks were taken already; `invalid_data` for a position in other blocks,
  ///         also where a file was changed since, and where there are fewer; what reads a block throws.
  /// Cost: skips the blocks before, one after the other.
  void begin_at(BlocksPosition const& position);

  /// Errors: those of what makes it, at each later call, too, since rows would be left out.
  [[nodiscard]] auto next() -> std::optional<Dataset>;

  /// Passes over the next block; false where there is none. Errors: as `next`, but for what is wrong in rows that are
  /// not looked at.
  [[nodiscard]] auto skip() -> bool;

  /// For who takes the same blocks again from another range. Errors: where what they come from was changed since.
  void check_is_unchanged() const;

  /// For who takes all blocks, before. Errors: `invalid_call`, with `attempted`, where some were taken already.
  void check_is_fresh(std::string const& attempted) const;

  class Iterator {
   public:
    using value_type = Dataset;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(DatasetBlocks* blocks) : blocks_{blocks}, block_{blocks->next()} {}

    [[nodiscard]] auto operator*() const noexcept -> Dataset const& { return *block_; }
    auto operator++() -> Iterator& {
      block_.reset();  // before there is another one
      block_ = blocks_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend auto operator==(Iterator const& it, std::default_sentinel_t) noexcept -> bool { return !it.block_; }

   private:
    DatasetBlocks* blocks_ = nullptr;
    std::optional<Dataset> block_{};
  };

  [[nodiscard]] auto begin() -> Iterator { return Iterator{this}; }
  [[nodiscard]] auto end() const noexcept -> std::default_sentinel_t { return {}; }

 private:
  struct State {
    Next next;                      ///< Empty behind the last block.
    Skip skip{};                    ///< May be empty.
    std::function<void()> check{};  ///< May be empty.
    std::string origin{};           ///< The source without the shards, as a position has it.
    BlockTurns turns{};             ///< Of the blocks without the shards.
    Expect before_first{};          ///< May be empty.
    /// Passes over so many blocks without the shards, of all workers; empty: by `skip`.
    std::function<void(std::uint64_t blocks)> pass_over{};
    bool is_begun = false;
    bool is_placed = false;  ///< By `begin_at`.
    std::exception_ptr failure{};
    BlocksPosition position{};
  };

  DatasetBlocks(std::string source, State state)
      : source_{std::move(source)}, state_{std::make_shared<State>(std::move(state))} {}

  /// Before a block is taken or passed over. `turns`: of the blocks without the shards.
  void note_begin(BlockTurns const& turns);

  /// From now on the blocks are taken by this object and its copies that are made later, and others that shared its
  /// place refuse. Then as `note_begin`. Errors: as `check_is_fresh`.
  void take_over(std::string const& attempted, BlockTurns const& turns);

  /// With the first block behind so many without the shards.
  void note_begin_behind(std::uint64_t blocks);

  /// After `next` and `skip` of the state.
  void note_end_or_block(bool is_block);

  /// For who makes another range of this one. Errors: `invalid_call` behind `begin_at`, which would be lost.
  void check_is_not_placed(std::string const& attempted) const;

  /// Lets go of the files and rows that blocks come from.
  void release();

  void pass_over(std::uint64_t blocks);

  /// What `work` throws is thrown at each later call, too.
  template <class Work>
  auto keeping_failure(Work const& work);

  std::string source_;
  std::shared_ptr<State> state_;
};

/// Makes a range of blocks anew, for who goes through them several times: each time the same blocks.
using MakeBlocks = std::function<DatasetBlocks()>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/dataset_blocks-inl.hpp>
#endif
