// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/arrow_column.hpp>
#include <raytrain/data/detail/arrow_columns.hpp>
#include <raytrain/data/detail/arrow_memory.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/parquet_options.hpp>

namespace raytrain::detail {

/// Makes columns of Parquet files, one file after the other.
class ParquetTable {
 public:
  /// `rows`: of a block, at most; unset where files are read as a whole.
  explicit ParquetTable(ParquetOptions options, std::optional<std::size_t> rows = {})
      : columns_{"ParquetOptions", std::move(options.columns), std::move(options.types)},
        is_whole_{!rows},
        block_rows_{std::min(rows.value_or(std::size_t{1} << 20U), std::size_t{1} << 30U)},
        most_unpack_ratio_{std::max<std::uint64_t>(options.max_unpack_ratio, 1)} {}

  /// The next rows are of this file.
  void begin_file(std::filesystem::path const& path) {
    file_.emplace(path);
    what_ = fmt::format("Parquet file '{}'", path.string());
    if (!std::filesystem::is_regular_file(path)) {
      throw Error{Errc::io, "reading " + what_, "it is not a regular file", "name a file"};
    }
    batch_.reset();
    batches_.reset();  // before what it reads from
    reader_.reset();
    memory_ = lent_memory(most_memory(file_->size_bytes(), most_unpack_ratio_));
    refusing([&] { open(path); });
  }

  /// All rows of the file.
  void read_file() {
    refusing([&] { read_all(); });
  }

  /// A block of them. Whether there was one left.
  auto read_block() -> bool {
    return refusing([&] {
      pass_over_skipped();
      memory_->begin();
      return read_next();
    });
  }

  /// Passes over a block, whose row groups are not read where no other block has rows of them. Whether there was one
  /// left.
  auto skip_block() -> bool {
    auto const rows = next_block_rows();
    if (rows == 0) {
      check_end();
      return false;
    }
    rows_left_ -= rows;
    rows_to_skip_ += rows;
    return true;
  }

  /// Whether rows were read, from which the types follow.
  [[nodiscard]] auto has_rows() const noexcept -> bool { return columns_.has_rows(); }

  /// The rows that were read since the last time: at least one must have come.
  [[nodiscard]] auto take() -> Dataset { return columns_.take(); }

  /// Behind the last file. Errors: `invalid_data` where there was no row.
  void finish() const { columns_.finish(); }

 private:
  using Field = parquet::arrow::SchemaField;

  void open(std::filesystem::path const& path) {
    parquet::ReaderProperties file{memory_.get()};
    file.set_page_checksum_verification(true);
    file.enable_buffered_stream();  // else all of a row group's bytes are in memory at a time
    parquet::ArrowReaderProperties columns{/*use_threads=*/true};
    columns.set_pre_buffer(false);  // else all bytes that were read stay in memory
    columns.set_coerce_int96_timestamp_unit(
        arrow::TimeUnit::MICRO);  // nanoseconds would overflow from the year 2262 on
    parquet::arrow::FileReaderBuilder builder;
    check(builder.OpenFile(path.string(), /*memory_map=*/false, file));
    read_texts_once(*builder.raw_reader()->metadata(), columns);
    builder.memory_pool(memory_.get())->properties(columns);
    reader_ = value(builder.Build());
    columns_.begin_file(names(), what_);
    leaves_.clear();
    for (auto const place : columns_.places()) add_leaves(fields()[place]);
    // Arrow counts the values of lists by int32.
    constexpr auto most_values = std::size_t{1} << 24U;
    row_values_ = most_row_values();
    most_rows_ = static_cast<std::int64_t>(std::clamp<std::size_t>(most_values / row_values_, 1, block_rows_));
    rows_left_ = reader_->parquet_reader()->metadata()->num_rows();
    check_groups();
    group_ = 0;
    group_left_ = 0;
    rows_to_skip_ = 0;
  }

  /// Of texts that are alike Arrow's dictionary then has one. It holds 2 GiB, grows up to the end of the file, and is
  /// copied for each block: columns that have more in the file are read text by text. So are lists, whose texts are
  /// refused, and encodings of which Arrow makes no dictionary.
  void read_texts_once(parquet::FileMetaData const& file, parquet::ArrowReaderProperties& columns) const {
    auto const& schema = *file.schema();
    auto comes_at_once = is_whole_;
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
      comes_at_once = comes_at_once && schema.Column(leaf)->max_repetition_level() == 0;
    }
    auto const most = comes_at_once ? std::int64_t{1} << 30U : static_cast<std::int64_t>(16 * block_rows_);
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
      auto const& column = *schema.Column(leaf);
      if (column.physical_type() != parquet::Type::BYTE_ARRAY || column.max_repetition_level() > 0) continue;
      std::int64_t packed = 0;
      for (int group = 0; group < file.num_row_groups() && packed <= most; ++group) {
        auto const chunk = file.RowGroup(group)->ColumnChunk(leaf);
        packed += std::clamp<std::int64_t>(chunk->total_uncompressed_size(), 0, most + 1);
        if (std::ranges::any_of(chunk->encodings(), is_delta)) packed = most + 1;
      }
      if (packed <= most) columns.set_read_dictionary(leaf, true);
    }
  }

  [[nodiscard]] static auto is_delta(parquet::Encoding::type encoding) -> bool {
    return encoding == parquet::Encoding::DELTA_BYTE_ARRAY || encoding == parquet::Encoding::DELTA_LENGTH_BYTE_ARRAY;
  }

  void read_all() {
    check_unpack_ratio();
    if (row_values_ > 1) {  // a whole table of lists would have more values than Arrow can count
      for (auto is_left = true; is_left;) is_left = read_next();
      return;
    }
    auto const table = value(reader_->ReadTable(leaves_));
    columns_.add(*table);
    rows_left_ -= table->num_rows();
    check_end();
  }

  auto read_next() -> bool {
    auto left = next_block_rows();
    if (left == 0) {
      check_end();
      return false;
    }
    rows_left_ -= left;
    while (left > 0) {
      while (group_left_ == 0) begin_group();
      auto const rows = next_rows(left);
      columns_.add(*rows);
      left -= rows->num_rows();
    }
    return true;
  }

  /// 0 behind the last block.
  [[nodiscard]] auto next_block_rows() const -> std::int64_t { return std::min(most_rows_, rows_left_); }

  [[nodiscard]] auto rows_of(int group) const -> std::int64_t {
    return reader_->parquet_reader()->metadata()->RowGroup(group)->num_rows();
  }

  /// Errors: `invalid_data` where the row groups have more or fewer rows than the file.
  void check_groups() const {
    auto left = rows_left_;
    for (int group = 0; group < reader_->num_row_groups(); ++group) {
      auto const rows = rows_of(group);
      if (rows < 0 || rows > left) {
        throw Error{Errc::invalid_data, "reading " + what_,
                    fmt::format("it promises {} rows, and its row groups have more", rows_left_),
                    "it is damaged: write it anew"};
      }
      left -= rows;
    }
    if (left != 0) refuse_missing(left, "it");
  }

  void pass_over_skipped() {
    while (rows_to_skip_ > 0) {
      if (group_left_ == 0) {
        if (auto const rows = rows_of(group_); rows <= rows_to_skip_) {
          rows_to_skip_ -= rows;
          ++group_;
          continue;
        }
        begin_group();
      }
      if (group_left_ <= rows_to_skip_) {
        rows_to_skip_ -= std::exchange(group_left_, 0);
        continue;
      }
      memory_->begin();
      rows_to_skip_ -= next_rows(std::min(rows_to_skip_, most_rows_))->num_rows();
    }
  }

  void begin_group() {
    batch_.reset();
    batches_.reset();
    group_left_ = rows_of(group_);
    batches_ = value(reader_->GetRecordBatchReader({group_++}, leaves_));
  }

  /// Of the row group that was begun, from 1 up to so many.
  [[nodiscard]] auto next_rows(std::int64_t most) -> std::shared_ptr<arrow::RecordBatch> {
    if (!batch_) {
      reader_->set_batch_size(std::min(most, group_left_));
      do {
        check(batches_->ReadNext(&batch_));
        if (!batch_) refuse_missing(group_left_, fmt::format("row group {}", group_ - 1));
      } while (batch_->num_rows() == 0);
      first_ = 0;
    }
    auto const count = std::min({most, group_left_, batch_->num_rows() - first_});
    auto rows = batch_->Slice(first_, count);
    first_ += count;
    group_left_ -= count;
    if (first_ == batch_->num_rows()) batch_.reset();
    return rows;
  }

  /// What Parquet throws for a damaged file is refused as what it returns.
  template <class Work>
  auto refusing(Work const& work) const -> decltype(work()) {
    try {
      return work();
    } catch (parquet::ParquetStatusException const& error) {
      check(error.status());
      throw;
    } catch (parquet::ParquetException const& error) {
      check(arrow::Status::Invalid(error.what()));
      throw;
    }
  }

  /// Where the file was changed meanwhile, the error says that, whatever else is wrong.
  void check(arrow::Status const& status) const {
    if (!status.ok()) file_->check();
    check_limit(status, *memory_,
                {what_, file_->size_bytes(), "ParquetOptions", is_whole_ ? std::string_view{"parquet_blocks"} : ""});
    check_memory(status, what_, "parquet_blocks");
    check_arrow(status, "reading " + what_);
  }

  template <class T>
  [[nodiscard]] auto value(arrow::Result<T> result) const -> T {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  void check_end() const {
    file_->check();
    if (rows_left_ != 0) refuse_missing(rows_left_, "it");
  }

  [[noreturn]] void refuse_missing(std::int64_t rows, std::string const& who) const {
    throw Error{Errc::invalid_data, "reading " + what_, fmt::format("{} rows fewer came than {} promises", rows, who),
                "it is damaged: write it anew"};
  }

  /// Values that are alike take almost nothing in a file.
  void check_unpack_ratio() const {
    constexpr std::uint64_t always = std::uint64_t{64} << 20U;
    auto const bytes = unpacked_bytes();
    auto const file_bytes = file_->size_bytes();
    if (bytes <= always || bytes / most_unpack_ratio_ <= file_bytes) return;
    throw Error{Errc::invalid_data, "reading " + what_,
                fmt::format("its {} bytes unpack to {}, more than 64 MiB and {} times as much, as those of a file do "
                            "that is made to fill the memory",
                            file_bytes, bytes, most_unpack_ratio_),
                "if you trust it, raise ParquetOptions::max_unpack_ratio, or read it in blocks by parquet_blocks"};
  }

  /// At least so many are those columns that are read: of texts their codes, unless they take more in the file.
  [[nodiscard]] auto unpacked_bytes() const -> std::uint64_t {
    auto const file = reader_->parquet_reader()->metadata();
    std::uint64_t bytes = 0;
    for (int group = 0; group < file->num_row_groups(); ++group) {
      auto const of_group = file->RowGroup(group);
      for (auto const leaf : leaves_) {
        auto const chunk = of_group->ColumnChunk(leaf);
        auto const values = static_cast<std::uint64_t>(std::max<std::int64_t>(chunk->num_values(), 0));
        auto const packed = static_cast<std::uint64_t>(std::max<std::int64_t>(chunk->total_uncompressed_size(), 0));
        bytes += std::max(values * value_bytes(*file->schema()->Column(leaf)), packed);
      }
    }
    return bytes;
  }

  [[nodiscard]] static auto value_bytes(parquet::ColumnDescriptor const& column) -> std::uint64_t {
    if (auto const type = column.logical_type(); type && type->is_int()) {
      return static_cast<std::uint64_t>(static_cast<parquet::IntLogicalType const&>(*type).bit_width()) / 8;
    }
    switch (column.physical_type()) {
      case parquet::Type::BOOLEAN: return 1;
      case parquet::Type::INT64:
      case parquet::Type::INT96:
      case parquet::Type::DOUBLE: return 8;
      case parquet::Type::FIXED_LEN_BYTE_ARRAY: return static_cast<std::uint64_t>(std::max(column.type_length(), 0));
      default: return 4;
    }
  }

  /// Values of a row in the column whose rows have most, from 1 on.
  [[nodiscard]] auto most_row_values() const -> std::size_t {
    auto const file = reader_->parquet_reader()->metadata();
    std::int64_t most = 1;
    for (auto const leaf : leaves_) {
      std::int64_t values = 0;
      for (int group = 0; group < file->num_row_groups(); ++group) {
        values += file->RowGroup(group)->ColumnChunk(leaf)->num_values();
      }
      most = std::max(most, file->num_rows() > 0 ? values / file->num_rows() : 1);
    }
    return static_cast<std::size_t>(most);
  }

  [[nodiscard]] auto fields() const -> std::vector<Field> const& { return reader_->manifest().schema_fields; }

  [[nodiscard]] auto names() const -> std::vector<std::string> {
    std::vector<std::string> all;
    for (auto const& field : fields()) all.push_back(field.field->name());
    return all;
  }

  void add_leaves(Field const& field) {
    if (field.is_leaf()) leaves_.push_back(field.column_index);
    for (auto const& child : field.children) add_leaves(child);
  }

  ArrowColumns columns_;
  bool is_whole_;
  std::size_t block_rows_;
  std::uint64_t most_unpack_ratio_;
  std::string what_;
  std::optional<FileState> file_;  ///< As it was when its reading began.
  std::shared_ptr<LimitedMemory> memory_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  ///< Of the row group that was begun.
  std::shared_ptr<arrow::RecordBatch> batch_;          ///< Of which rows are left.
  std::int64_t first_ = 0;                             ///< Of them.
  std::vector<int> leaves_;  ///< Parquet's numbers of the columns that hold values: a list of lists has one.
  std::size_t row_values_ = 1;
  std::int64_t most_rows_ = 1;     ///< Of a block.
  std::int64_t rows_left_ = 0;     ///< Of the file, which were neither read nor skipped.
  int group_ = 0;                  ///< The row group that is begun next.
  std::int64_t group_left_ = 0;    ///< Rows of the one that was begun.
  std::int64_t rows_to_skip_ = 0;  ///< Rows that are passed over before others are read.
};

}  // namespace raytrain::detail
