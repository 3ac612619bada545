// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/data/column.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// The column "data" of IDX files, plain, gzip or zstd: the first dimension counts the rows. The rows of several files
/// follow one another.
///
/// Threads: reads several files at the same time, on all cores.
/// Errors: those of `DataPaths::files`; `not_found`; `io`, also for a file that is changed meanwhile; `invalid_data`
///         for a file whose header is wrong or whose content is shorter or longer than its header promises, with
///         file and numbers, for one that unpacks to more than 64 MiB and 200 times its size, and for files that
///         differ in type or row shape. Memory is taken only for what a file can
///         hold.
/// Cost:   the rows of several files are copied once.
[[nodiscard]] auto read_idx(DataPaths const& paths) -> Column;

/// Columns "image" and "label" from IDX files of the one and of the other, such as those of MNIST and Fashion-MNIST.
///
/// Errors: those of `read_idx` for the one; `invalid_data` when the numbers of images and labels differ, or the files
///         look swapped.
[[nodiscard]] auto read_idx(DataPaths const& images, DataPaths const& labels) -> Dataset;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/idx-inl.hpp>
#endif
