// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

namespace raytrain {

/// Writes the rows of all blocks into a folder, and gives them as a dataset that is memory-mapped from it: rows are
/// read when they are used, and given up when memory is short, so that they may take more than there is. Where the
/// folder has the rows of the same source already, nothing is written, and no block is read: the next start, and the
/// other ranks, take what the first one has written. They wait for it, as long as it takes; where it fails, the next
/// one tries.
///
/// While it waits for another writer, it calls `while_waiting` about 20 times a second, on this thread, to show
/// progress or to look whether to stop. What that throws ends the wait, and leaves the folder to the writer.
///
///     auto const train = raytrain::materialize("/scratch/clicks", raytrain::csv_blocks("clicks/2026-*.csv"));
///
/// The folder has column_0.npy, column_1.npy and so on, in the order of the columns, which
/// `numpy.load(file, mmap_mode="r")` opens too; for a column of text they hold int32 codes. raytrain_dataset.json has
/// the columns' names, the categories of texts and the source, and says when all is written: what an interrupted call
/// leaves behind is written anew. raytrain_dataset.lock is what a writer locks; do not remove it while somebody writes.
/// Whoever changes a column's file changes the rows, and whoever shortens it ends the program by SIGBUS.
///
/// Errors: `invalid_call` where some of the blocks were taken already; `invalid_data` where the folder has rows of
///         another source, or a manifest of another version, or holds anything else, which stays as it is; for blocks
///         without columns, and for those whose columns differ; for bfloat16, which NumPy's format has not; for names,
///         and texts of rows, that are not UTF-8; and where no block has a row. `io`, and what a block's reader throws.
/// Cost: memory for one block, and for the different texts of each column; an open file for each column while they are
///       written.
[[nodiscard]] auto materialize(std::filesystem::path const& folder, DatasetBlocks blocks,
                               std::function<void()> const& while_waiting = {}) -> Dataset;

/// The dataset of a folder that `materialize` has written, whatever its source.
///
/// Errors: `not_found` where there is none; `invalid_data` where it is not complete, or a file is missing, or has
///         another number of rows, type or shape than it had; values that were changed go unnoticed. `io`.
/// Cost: the codes of text are read once, to see that they have a text each; nothing else is read.
[[nodiscard]] auto open_dataset(std::filesystem::path const& folder) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/materialize-inl.hpp>
#endif
