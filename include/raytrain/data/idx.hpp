// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// The column "data" of an IDX file, plain, gzip or zstd: the first dimension counts the rows.
///
/// Errors: `not_found`, `io`, and `invalid_data` for a file whose header is wrong or whose content is shorter or longer
/// than its header promises, with file and numbers. Memory is taken only for what the file can hold.
[[nodiscard]] auto read_idx(std::filesystem::path const& path) -> Column;

/// Columns "image" and "label" from two IDX files, such as those of MNIST and Fashion-MNIST.
///
/// Errors: those of `read_idx` for one file; `invalid_data` when the numbers of images and labels differ, or the files
/// look swapped.
[[nodiscard]] auto read_idx(std::filesystem::path const& images, std::filesystem::path const& labels) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/idx-inl.hpp>
#endif
