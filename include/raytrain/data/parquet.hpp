// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <utility>

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/arrow_columns.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/parquet_file_writer.hpp>
#include <raytrain/data/detail/parquet_table.hpp>
#include <raytrain/data/parquet_options.hpp>

namespace raytrain {

/// A column of each column of Parquet files, as Arrow reads them. The rows of several files follow one another; each
/// has the same columns.
///
/// Booleans are booleans, or numbers where `ParquetOptions::types` names their column. Dates, times and timestamps are
/// the whole numbers that the file has for them, int32 or int64, in its units, but for INT96's, which become
/// microseconds. Texts, binary values and categories of texts are text. Lists of numbers, all of one length, are the
/// row shape; those of lists one of more dimensions. A missing text stays missing, and a missing float is NaN, as is
/// each value of a column of Arrow's type null.
///
/// Errors: those of `DataPaths::files`; `not_found` for a file or a column that is not there; `io`; `invalid_config`
///         for a column that is named twice; `invalid_data`, with the file, for what is no Parquet file, whole numbers
///         that are missing or that their type cannot hold, lists that are missing, empty or of several lengths, other
///         types, columns that differ from those of the files before, no rows, and beyond `max_unpack_ratio`.
/// Threads: Arrow reads columns on all cores.
/// Cost:   nothing is copied of a column of numbers that Arrow gives in one piece, as of one file without lists,
///         without gaps and conversion; of others, the memory of one column at a time.
/// Source: Apache Arrow C++.
[[nodiscard]] inline auto read_parquet(DataPaths const& paths, ParquetOptions const& options = {}) -> Dataset {
  detail::ParquetTable table{options};
  for (auto const& path : paths.files()) {
    table.begin_file(path);
    table.read_file();
  }
  table.finish();
  return table.take();
}

/// The same rows in blocks, of which one is in memory at a time: for files that are larger than memory. Each has
/// `rows` rows, or fewer where these have more than 16 Mi values in a column, but for a file's last one. Types and row
/// shapes are those of the first block. Each block of texts has categories of its own.
///
/// Errors: when the range is made, those of `DataPaths::files`, `not_found` or `io` for a file, and `invalid_call` for
///         0 rows. When a block is read, the others of `read_parquet`, `not_found` for a file that was removed, and
///         `io` for one that was changed; the latter two also when it is skipped.
/// Cost: a row group is not read where all its blocks are skipped. One that is larger than a block is read up to the
///       last of its blocks that is taken.
[[nodiscard]] inline auto parquet_blocks(DataPaths const& paths, ParquetOptions options = {}, std::size_t rows = 65'536)
    -> DatasetBlocks {
  auto format = detail::options_text("Parquet", options);
  return detail::blocks_of_tables(paths, std::make_shared<detail::ParquetTable>(std::move(options), rows),
                                  {"parquet_blocks", std::move(format), rows});
}

/// Writes a file that `read_parquet`, pandas and Arrow read: compressed by Snappy, at most a million rows in a row
/// group, row shapes as lists of fixed sizes, missing numbers as the NaN that they are, missing texts as nulls. A file
/// that was there is replaced once all is written, and stays as it is where that fails.
///
/// Errors: `invalid_data` where there is no column, for bfloat16, which Parquet has not, for a text or a
///         name that is not UTF-8, and for a boolean that is neither 0 nor 1; `io` when the file cannot be written.
inline void write_parquet(Dataset const& dataset, std::filesystem::path const& path) {
  detail::ParquetFileWriter file{path};
  file.append(dataset);
  file.finish();
}

/// The same of all blocks, of which one is in memory at a time; each begins a row group.
///
/// Errors: also `invalid_call` where some of the blocks were taken already, `invalid_data` where the columns of blocks
///         differ, and where there is none; those of the blocks.
inline void write_parquet(DatasetBlocks blocks, std::filesystem::path const& path) {
  blocks.check_is_fresh(fmt::format("write Parquet file '{}'", path.string()));
  detail::ParquetFileWriter file{path};
  for (auto const& block : blocks) file.append(block);
  file.finish();
}

}  // namespace raytrain
