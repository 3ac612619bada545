// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/libsvm_options.hpp>

namespace raytrain {

/// Lines of "label index:value index:value ..." as columns "label" (float32) and "features" (float32, dense, with one
/// value for each feature), from files that are plain, gzip or zstd. "qid:number" behind the label of each line becomes
/// a column "qid" (int64) between the two. What follows a '#' is a comment. The rows of several files follow one
/// another, and all have the features of the largest index among them.
///
/// Threads: reads one file after the other, one of 4 MiB or more on disk on all cores.
/// Errors: those of `DataPaths::files`; `not_found`; `io`, also for one that is changed meanwhile; `invalid_config` for
///         options that cannot work; `invalid_data`, with file and line, for what is no number, indices that do not
///         ascend or are not among the features, a qid that only some lines have, features that take more than
///         `max_bytes`, no rows, and beyond `max_unpack_ratio`.
/// Cost:   labels and values beyond 2^24 are rounded to float32; 8 bytes for each value of the text, beside the dense
///         features.
/// Source: C.-C. Chang, C.-J. Lin, "LIBSVM: A library for support vector machines", and scikit-learn's
///         load_svmlight_file for qid, comments and the choice of `zero_based`.
[[nodiscard]] auto read_libsvm(DataPaths const& paths, LibsvmOptions const& options = {}) -> Dataset;

/// The same rows in blocks, of which one is in memory at a time: for files that are larger than memory. Each has
/// `rows` rows, but for a file's last one. Of a file of 4 MiB or more, pieces are read ahead on up to 8 cores.
/// `LibsvmOptions::features` and `zero_based` must be set, since no block knows the indices of the next ones;
/// `max_bytes` is for each block.
///
/// Errors: when the range is made, `invalid_config` for options that cannot work, those of `DataPaths::files`,
///         `not_found` or `io` for a file, and `invalid_call` for 0 rows. When a block is read, the others of
///         `read_libsvm`, `not_found` for a file that was removed, and `io` for one that was changed. Blocks that a
///         shard or a position skips are not looked at.
/// Cost: of blocks that are skipped the lines are counted. Only the first block is always parsed.
[[nodiscard]] auto libsvm_blocks(DataPaths const& paths, LibsvmOptions options, std::size_t rows = 65'536)
    -> DatasetBlocks;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/libsvm-inl.hpp>
#endif
