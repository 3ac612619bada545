// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/libsvm_options.hpp>

namespace raytrain {

/// Lines of "label index:value index:value ..." as columns "label" (float32) and "features" (float32, dense, with one
/// value for each feature), from files that are plain or gzip. "qid:number" behind the label of each line becomes a
/// column "qid" (int64) between the two. What follows a '#' is a comment. The rows of several files follow one another,
/// and all have the features of the largest index among them.
///
/// Errors: those of `DataPaths::files`; `not_found`; `io`; `invalid_config` for options that cannot work;
///         `invalid_data`, with file and line, for what is no number, indices that do not ascend or are not among the
///         features, a qid that only some lines have, features that take more than `max_bytes`, and no rows.
/// Cost: labels and values beyond 2^24 are rounded to float32; 8 bytes for each value of the text, beside the dense
/// features. Source: C.-C. Chang, C.-J. Lin, "LIBSVM: A library for support vector machines", and scikit-learn's
///         load_svmlight_file for qid, comments and the choice of `zero_based`.
[[nodiscard]] auto read_libsvm(DataPaths const& paths, LibsvmOptions const& options = {}) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/libsvm-inl.hpp>
#endif
