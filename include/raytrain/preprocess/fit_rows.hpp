// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/container_bytes.hpp>
#include <raytrain/message/object_bytes.hpp>

namespace raytrain {

/// The rows that a preprocessor learns from: all of a dataset, in one program; or a worker's part of them, where each
/// worker has another part and all learn the same.
///
/// Rows lie in blocks, which do not depend on the number of workers. What is found in each block is put together in the
/// blocks' order, so that any number of workers learns the same, bit by bit.
///
/// Threads: one worker's thread.
class FitRows {
 public:
  /// Gives every worker's bytes, in rank order. All workers call it together.
  using AllGather = std::function<std::vector<Bytes>(Bytes mine)>;
  using Transform = std::function<Dataset(Dataset const& rows)>;

  /// All rows. Not explicit: `scaler.fit(dataset)`.
  FitRows(Dataset const& dataset);  // NOLINT(google-explicit-constructor)

  /// Which worker's part, of so many that divide the rows.
  struct Part {
    Rank rank{};
    WorldSize world_size{1};
  };

  /// A part of a dataset that each of these workers holds whole. Other workers may share other datasets; what is learnt
  /// is of all of them, in the order of the workers.
  FitRows(Dataset const& dataset, Part part, AllGather all_gather);

  /// This worker's rows. Those that come `through` a step before are made at once, and then stay in memory: for who
  /// goes through them many times. `fold` makes block by block.
  [[nodiscard]] auto dataset() const -> Dataset const&;

  /// No rows, in the columns of `dataset`.
  [[nodiscard]] auto layout() const -> Dataset const&;

  /// The same rows after a step before, made anew, block by block, each time that they are gone through. `transform`,
  /// which outlives it, gives as many rows as it gets, each of one row alone.
  [[nodiscard]] auto through(Transform transform) const -> FitRows;

  /// The same rows after a step before, in memory. `transform` gives as many rows as it gets.
  [[nodiscard]] auto transformed(Transform const& transform) const -> FitRows;

  /// None of the rows, for who learns nothing of them.
  [[nodiscard]] auto without_rows() const -> FitRows;

  /// Calls `work(piece)` for this worker's rows, piece by piece where they are made, else once.
  template <class Work>
  void for_each_piece(Work const& work) const {
    if (is_made()) return work(dataset());
    for (std::size_t first = 0; first < source_.rows(); first += block_rows_) work(block(first));
  }

  /// Every worker's value, in rank order: of one program its own. A group operation.
  template <Transferable T>
  [[nodiscard]] auto all_gather(T const& mine) const -> std::vector<T> {
    if (!all_gather_) return {mine};
    std::vector<T> values;
    for (auto const& bytes : all_gather_(to_bytes(mine))) values.push_back(from_bytes<T>(bytes));
    return values;
  }

  /// What `find(block)` says of each block of all workers' rows, put together by `merge(all, of_block)`, from `all` on.
  /// A group operation; the result is the same on every worker.
  template <Transferable T, class Find, class Merge>
  [[nodiscard]] auto fold(T all, Find const& find, Merge const& merge) const -> T {
    std::vector<T> found;
    for (std::size_t first = 0; first < source_.rows(); first += block_rows_) found.push_back(find(block(first)));
    for (auto const& of_worker : all_gather(found)) {
      for (auto const& of_block : of_worker) merge(all, of_block);
    }
    return all;
  }

 private:
  /// What was made of the rows, once asked for.
  struct Made {
    std::optional<Dataset> layout{};
    std::optional<Dataset> all{};
  };

  /// Whether all rows are there, without a step that makes them.
  [[nodiscard]] auto is_made() const noexcept -> bool { return steps_.empty() || made_->all; }
  /// The block that begins with this row.
  [[nodiscard]] auto block(std::size_t first) const -> Dataset;
  [[nodiscard]] auto after_steps(Dataset rows) const -> Dataset;
  /// Others than these, in memory.
  [[nodiscard]] auto replaced_by(Dataset rows) const -> FitRows;

  Dataset source_;
  std::vector<Transform> steps_;  ///< Through which the rows come.
  std::size_t block_rows_;
  AllGather all_gather_;
  std::shared_ptr<Made> made_ = std::make_shared<Made>();
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/fit_rows-inl.hpp>
#endif
