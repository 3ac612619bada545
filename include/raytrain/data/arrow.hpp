// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>
#include <arrow/ipc/writer.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include <raytrain/data/arrow_options.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/arrow_columns.hpp>
#include <raytrain/data/detail/arrow_file_writer.hpp>
#include <raytrain/data/detail/arrow_table.hpp>
#include <raytrain/data/detail/file_blocks.hpp>

namespace raytrain {

namespace detail {

struct ArrowFormat {
  static constexpr std::string_view name = "Arrow";
  static constexpr std::int64_t part_rows = 65'536;  // as pandas writes them

  [[nodiscard]] static auto open(std::shared_ptr<NewFileStream> const& stream,
                                 std::shared_ptr<arrow::Schema> const& schema)
      -> arrow::Result<std::shared_ptr<arrow::ipc::RecordBatchWriter>> {
    return arrow::ipc::MakeFileWriter(stream, schema);
  }
};

}  // namespace detail

/// A column of each column of Arrow's own files, those of the file format (.arrow, .feather of version 2) and of the
/// stream format (.arrows), which their first bytes tell apart; what is compressed in them by LZ4 or zstd is unpacked.
/// The rows of several files follow one another; each has the same columns.
///
/// Types become what `read_parquet` makes of them. Categories that are no texts are the values that they stand for.
///
/// Errors: those of `DataPaths::files`; `not_found` for a file or a column that is not there; `io`; `invalid_config`
///         for a column that is named twice; `invalid_data`, with the file, for what is no Arrow file, is damaged, or
///         breaks off, and for the values and columns that `read_parquet` refuses. There are no checksums: a damaged
///         number is another number.
/// Cost:   nothing is copied of a column of numbers that comes in one record batch, without gaps and conversion; it
///         keeps what was read of the batch's other columns. Of several record batches, twice the memory of the rows.
///         Of a stream all columns are read, whichever are kept.
/// Source: Apache Arrow C++; Arrow Columnar Format, "Serialization and Interprocess Communication (IPC)".
[[nodiscard]] inline auto read_arrow(DataPaths const& paths, ArrowOptions const& options = {}) -> Dataset {
  detail::ArrowTable table{options};
  for (auto const& path : paths.files()) {
    table.begin_file(path);
    table.read_file();
  }
  table.finish();
  return table.take();
}

/// The same rows in blocks, of which one is in memory at a time beside the record batch that it is of: for files that
/// are larger than memory. Each has at most `rows` rows, and none those of two record batches. Types and row shapes are
/// those of the first block. Each block of texts has categories of its own.
///
/// Errors: when the range is made, those of `DataPaths::files`, `not_found` or `io` for a file, and `invalid_call` for
///         0 rows. When a block is read, the others of `read_arrow`, `not_found` for a file that was removed, and `io`
///         for one that was changed. A block that is skipped may have values of a wrong type; all else is found.
[[nodiscard]] inline auto arrow_blocks(DataPaths const& paths, ArrowOptions options = {}, std::size_t rows = 65'536)
    -> DatasetBlocks {
  auto format = detail::options_text("Arrow", options);
  return detail::blocks_of_tables(paths, std::make_shared<detail::ArrowTable>(std::move(options), rows),
                                  {"arrow_blocks", std::move(format), rows});
}

/// Writes a file of Arrow's file format, which `read_arrow`, pandas' `read_feather` and Arrow read: not compressed, so
/// that others can map it into memory, at most 65'536 rows in a record batch, and otherwise as `write_parquet` does. A
/// file that was there is replaced once all is written, and stays as it is where that fails.
///
/// Errors: `invalid_data` where there is no column, for bfloat16, which Arrow has not, and for a text or a name that is
///         not UTF-8; `io` when the file cannot be written.
inline void write_arrow(Dataset const& dataset, std::filesystem::path const& path) {
  detail::ArrowFileWriter<detail::ArrowFormat> file{path};
  file.append(dataset);
  file.finish();
}

/// The same of all blocks, of which one is in memory at a time; each begins a record batch.
///
/// Errors: also `invalid_call` where some of the blocks were taken already, `invalid_data` where the columns of blocks
///         differ, and where there is none; those of the blocks.
inline void write_arrow(DatasetBlocks blocks, std::filesystem::path const& path) {
  blocks.check_is_fresh(fmt::format("write Arrow file '{}'", path.string()));
  detail::ArrowFileWriter<detail::ArrowFormat> file{path};
  for (auto const& block : blocks) file.append(block);
  file.finish();
}

}  // namespace raytrain
