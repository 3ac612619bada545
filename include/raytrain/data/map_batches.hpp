// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// How `map_batches` calls its function.
struct MapBatchesOptions {
  std::size_t batch_size = 4096;  ///< Rows of a batch, at least 1; the last one may have fewer.
  int threads = 1;  ///< At least 1. Above, so many threads call the function, at the same time; 1 is the caller's own.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

/// What `function` makes of each batch of rows, joined in the order of the batches, whatever the number of threads.
///
/// A batch shares the memory of the dataset. The results may have any number of rows, and any columns, the same for all
/// batches; `Dataset{}` adds nothing. A dataset without rows has one batch, without rows, so that
/// the columns of the result are known; one without columns either gives `Dataset{}`.
/// Threads: with `threads` above 1 the function is called by several at the same time.
/// Errors: `invalid_config` for options out of range; what the function throws at the first batch at which it does, as
///         an `Error` that names its rows, once the other threads have ended their batches; `invalid_data` when results
///         have other columns than the first one, listing what differs.
[[nodiscard]] auto map_batches(Dataset const& dataset, std::function<Dataset(Dataset const& batch)> const& function,
                               MapBatchesOptions const& options = {}) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/map_batches-inl.hpp>
#endif
