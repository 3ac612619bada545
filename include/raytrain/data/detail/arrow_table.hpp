// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/data/arrow_options.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/arrow_column.hpp>
#include <raytrain/data/detail/arrow_columns.hpp>
#include <raytrain/data/detail/arrow_memory.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/file_state.hpp>

namespace raytrain::detail {

/// Makes columns of Arrow's own files, of the file and the stream format, one file after the other.
///
/// Source: Arrow Columnar Format, "Serialization and Interprocess Communication (IPC)".
class ArrowTable {
 public:
  /// `rows`: of a block, at most; unset where files are read as a whole.
  explicit ArrowTable(ArrowOptions options, std::optional<std::size_t> rows = {})
      : columns_{"ArrowOptions", std::move(options.columns), std::move(options.types)},
        is_whole_{!rows},
        block_rows_{std::min(rows.value_or(std::size_t{1} << 30U), std::size_t{1} << 30U)},
        most_unpack_ratio_{std::max<std::uint64_t>(options.max_unpack_ratio, 1)} {}

  /// The next rows are of this file.
  void begin_file(std::filesystem::path const& path) {
    state_.emplace(path);
    what_ = fmt::format("Arrow file '{}'", path.string());
    if (!std::filesystem::is_regular_file(path)) {
      throw Error{Errc::io, "reading " + what_, "it is not a regular file", "name a file"};
    }
    batch_.reset();
    file_.reset();
    stream_.reset();
    input_.reset();
    memory_ = lent_memory(most_memory(state_->size_bytes(), most_unpack_ratio_));
    input_ = value(arrow::io::ReadableFile::Open(path.string(), memory_.get()));
    auto const is_stream = begins_stream();
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.memory_pool = memory_.get();
    open(is_stream, options);
    auto const names = (is_stream ? stream_->schema() : file_->schema())->field_names();
    columns_.begin_file(names, what_);
    if (columns_.places().size() < names.size()) {
      for (auto const place : columns_.places()) options.included_fields.push_back(static_cast<int>(place));
      open(is_stream, options);
    }
    next_ = 0;
  }

  /// All rows of the file.
  void read_file() {
    while (auto const batch = next_batch()) columns_.add(*batch);
    state_->check();
  }

  /// A block of them. Whether there was one left.
  auto read_block() -> bool {
    auto const rows = begin_next_block();
    if (rows == 0) return false;
    columns_.add(*batch_->Slice(first_, rows));
    first_ += rows;
    return true;
  }

  /// Passes over a block. Whether there was one left.
  auto skip_block() -> bool {
    auto const rows = begin_next_block();
    first_ += rows;
    return rows > 0;
  }

  /// Whether rows were read, from which the types follow.
  [[nodiscard]] auto has_rows() const noexcept -> bool { return columns_.has_rows(); }

  /// The rows that were read since the last time: at least one must have come.
  [[nodiscard]] auto take() -> Dataset { return columns_.take(); }

  /// Behind the last file. Errors: `invalid_data` where there was no row.
  void finish() const { columns_.finish(); }

 private:
  [[noreturn]] void refuse(std::string const& problem, std::string const& remedy) const {
    throw Error{Errc::invalid_data, "reading " + what_, problem, remedy};
  }

  /// Where the file was changed meanwhile, the error says that, whatever else is wrong.
  void check(arrow::Status const& status) const {
    if (!status.ok()) state_->check();
    check_limit(status, *memory_,
                {what_, state_->size_bytes(), "ArrowOptions", is_whole_ ? std::string_view{"arrow_blocks"} : ""});
    check_memory(status, what_, "arrow_blocks");
    check_arrow(status, "reading " + what_);
  }

  template <class T>
  [[nodiscard]] auto value(arrow::Result<T> result) const -> T {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  /// What is no file of the file format. Errors: `invalid_data` for what is neither.
  [[nodiscard]] auto begins_stream() const -> bool {
    std::array<char, 8> first{};
    auto const bytes = value(input_->ReadAt(0, first.size(), first.data()));
    std::string_view const head{first.data(), static_cast<std::size_t>(bytes)};
    if (head.starts_with("ARROW1")) return false;
    if (head.starts_with("PAR1")) refuse("it is a Parquet file", "read it by read_parquet");
    if (head.starts_with("FEA1")) {
      refuse("it is a Feather file of version 1, and those of version 2 are read", "write it anew, as by pandas");
    }
    if (auto const compression = compression_of(head); !compression.empty()) {
      refuse(fmt::format("it is compressed by {} as a whole", compression),
             fmt::format("unpack it, as by {} -d, or compress what is in it, as pandas does", compression));
    }
    // A length in front of the schema; since Arrow 0.15 four bytes of ones before it.
    auto const length = std::bit_cast<std::array<std::int32_t, 2>>(first)[0];
    auto const size = static_cast<std::int64_t>(state_->size_bytes());
    if (bytes == 8 && (length == -1 || (length > 0 && length < size))) return true;
    refuse(bytes == 0 ? "it is empty" : "it begins as neither an Arrow file nor a stream of Arrow's",
           "look at what has written it");
  }

  void open(bool is_stream, arrow::ipc::IpcReadOptions const& options) {
    check(input_->Seek(0));
    if (is_stream) {
      stream_ = value(arrow::ipc::RecordBatchStreamReader::Open(input_, options));
    } else {
      file_ = value(arrow::ipc::RecordBatchFileReader::Open(input_, options));
    }
  }

  /// Its rows, 0 behind the last block.
  [[nodiscard]] auto begin_next_block() -> std::int64_t {
    if (!batch_ || first_ == batch_->num_rows()) {
      batch_.reset();
      memory_->begin();
      batch_ = next_batch();
      first_ = 0;
    }
    if (!batch_) {
      state_->check();
      return 0;
    }
    return std::min(batch_->num_rows() - first_, static_cast<std::int64_t>(block_rows_));
  }

  /// With rows in it, or null behind the last one.
  [[nodiscard]] auto next_batch() -> std::shared_ptr<arrow::RecordBatch> {
    std::shared_ptr<arrow::RecordBatch> batch;
    do {
      if (file_) {
        if (next_ == file_->num_record_batches()) return nullptr;
        batch = value(file_->ReadRecordBatch(next_++));
      } else {
        auto const before = value(input_->Tell());
        check(stream_->ReadNext(&batch));
        if (!batch) {
          check_end(before);
          return nullptr;
        }
      }
    } while (batch->num_rows() == 0);
    // There are no checksums, and a damaged offset would lead anywhere.
    check(batch->ValidateFull());
    return batch;
  }

  /// Arrow takes a stream that breaks off between two batches for one that ends there.
  void check_end(std::int64_t end) const {
    auto const now = value(input_->Tell());
    if (now == end) {
      refuse("it breaks off without the mark of a stream's end, so that rows may be missing",
             "let what writes it close its writer, or fetch the file again");
    }
    auto const left = static_cast<std::int64_t>(state_->size_bytes()) - now;
    if (left > 0) refuse(fmt::format("{} bytes follow the end of its stream", left), "make a file of each stream");
  }

  ArrowColumns columns_;
  bool is_whole_;
  std::size_t block_rows_;
  std::uint64_t most_unpack_ratio_;
  std::string what_;
  std::optional<FileState> state_;  ///< As it was when its reading began.
  std::shared_ptr<LimitedMemory> memory_;
  std::shared_ptr<arrow::io::ReadableFile> input_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;  ///< Or `stream_`.
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream_;
  int next_ = 0;                               ///< Batch of the file.
  std::shared_ptr<arrow::RecordBatch> batch_;  ///< Of which blocks are made.
  std::int64_t first_ = 0;                     ///< Row of it that is left.
};

}  // namespace raytrain::detail
