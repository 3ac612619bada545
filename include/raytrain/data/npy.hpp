// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include <raytrain/data/column.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// How an array is read.
struct NpyOptions {
  std::string column = "data";         ///< Name of the column that it becomes.
  std::size_t max_unpack_ratio = 200;  ///< As `CsvOptions::max_unpack_ratio`.
};

/// A column of the array that `numpy.save` has written, plain, gzip or zstd: the first dimension counts the rows, the
/// others are the row shape. The rows of several files follow one another.
///
/// Types: floats of 2, 4 and 8 bytes, integers of 1 to 8, and bool. Either byte order; an array in Fortran's
/// order, as pandas' to_numpy gives it, is put into C's. Nothing is unpickled.
/// Threads: reads several files at the same time, on all cores.
/// Errors: those of `DataPaths::files`; `not_found`; `io`, also for one that is changed meanwhile; `invalid_data` for a
///         header that is wrong, an array that no column can hold, a file that is shorter or longer than its header
///         promises, beyond `max_unpack_ratio`, and for files that differ in type or row shape. Memory is taken only
///         for what the file can hold.
/// Cost: the bytes of one plain file are copied once, by the operating system; those in Fortran's order, and those of
///       several files, once more.
/// Source: NEP 1, "A simple file format for NumPy arrays", versions 1.0 to 3.0.
[[nodiscard]] auto read_npy(DataPaths const& paths, NpyOptions const& options = {}) -> Dataset;

/// The same of one file, whose rows stay where they are: they are memory-mapped, so that a file may be larger than
/// memory, and all processes of a host share what the system keeps of it. Whoever changes the file changes the rows,
/// and whoever shortens it ends the program by SIGBUS. Bytes of a bool that are neither 0 nor 1, which NumPy takes for
/// True, stay as they are, and nothing writes them.
///
/// Errors: those of `read_npy`; `invalid_data` for a file that is compressed, of another byte order or in Fortran's
///         order, or whose values are not aligned; `io` where its file system maps no files.
/// Cost: none of the rows is read before it is used.
[[nodiscard]] auto map_npy(std::filesystem::path const& path, NpyOptions const& options = {}) -> Dataset;

/// Writes the column as an array that `numpy.load` reads: the rows first, then the row shape. A file that was there is
/// replaced once all is written, and stays as it is where that fails.
///
/// Errors: `invalid_data` for a column of text or bfloat16, which NumPy's format has not, for rows of more than 63
///         dimensions, and for a boolean that is neither 0 nor 1; `io` when the file cannot be written.
/// Cost: the column's memory is written without a copy.
/// Source: NEP 1, version 1.0, whose header numpy.save, too, leaves room in for more rows.
void write_npy(Column const& column, std::filesystem::path const& path);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/npy-inl.hpp>
#endif
