// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
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

  /// This worker's rows.
  [[nodiscard]] auto dataset() const noexcept -> Dataset const& { return dataset_; }

  /// The same rows after a step before: `transform` gives as many rows as it gets, or none where nothing is learnt of
  /// them.
  template <class Transform>
  [[nodiscard]] auto transformed(Transform const& transform) const -> FitRows {
    auto result = *this;
    result.dataset_ = transform(dataset_);
    return result;
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
    for (std::size_t first = 0; first < dataset_.rows(); first += block_rows_) {
      found.push_back(find(dataset_.split_at(first).second.head(block_rows_)));
    }
    for (auto const& of_worker : all_gather(found)) {
      for (auto const& of_block : of_worker) merge(all, of_block);
    }
    return all;
  }

 private:
  Dataset dataset_;
  std::size_t block_rows_;
  AllGather all_gather_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/fit_rows-inl.hpp>
#endif
