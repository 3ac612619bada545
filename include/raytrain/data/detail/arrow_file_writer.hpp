// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/arrow_array.hpp>
#include <raytrain/data/detail/arrow_column.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/new_file.hpp>

namespace raytrain::detail {

/// Hands what Arrow writes to a new file.
class NewFileStream final : public arrow::io::OutputStream {
 public:
  explicit NewFileStream(NewFile& file) : file_{file} {}

  auto Write(void const* data, std::int64_t bytes) -> arrow::Status override {
    try {
      file_.write({static_cast<char const*>(data), static_cast<std::size_t>(bytes)});
    } catch (...) {
      failure_ = std::current_exception();  // Arrow's own code knows only its statuses
      return arrow::Status::IOError("the file cannot be written");
    }
    written_ += bytes;
    return arrow::Status::OK();
  }
  using OutputStream::Write;
  auto Tell() const -> arrow::Result<std::int64_t> override { return written_; }
  auto Close() -> arrow::Status override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  auto closed() const -> bool override { return is_closed_; }

  /// Errors: those of the file, before those of Arrow.
  void check(arrow::Status const& status, std::string_view attempted) const {
    if (failure_) std::rethrow_exception(failure_);
    check_arrow(status, attempted);
  }

 private:
  NewFile& file_;
  std::int64_t written_ = 0;
  bool is_closed_ = false;
  std::exception_ptr failure_{};
};

/// A file of Arrow's tables that grows block by block. `Format` has the file's `name`, for errors, the `part_rows` of
/// a part of it at most, and `open`, which begins what a stream gets, of a schema.
template <class Format>
class ArrowFileWriter {
 public:
  explicit ArrowFileWriter(std::filesystem::path const& path)
      : attempted_{fmt::format("write {} file '{}'", Format::name, path.string())}, file_{path, attempted_} {}

  /// The first block's columns are those of the file. Errors: those of `write_parquet` or `write_arrow`.
  void append(Dataset const& block) {
    if (writer_ && block.rows() == 0 && block.columns().empty()) return;
    if (block.columns().empty()) throw Error{Errc::invalid_data, attempted_, "the dataset has no column", "add one"};
    if (!first_names_.empty()) {
      if (auto const differences = column_differences(first_columns_, block); !differences.empty()) {
        throw Error{Errc::invalid_data, attempted_,
                    fmt::format("a block has other columns than the first one: {}", fmt::join(differences, ", ")),
                    "give all blocks the same names and types"};
      }
    }
    auto const rows = first_names_.empty() ? block : block.select_columns(first_names_);
    auto const table = arrow_table_of(rows, attempted_);
    if (!writer_) begin(block, table->schema());
    stream_->check(writer_->WriteTable(*table, Format::part_rows), attempted_);
  }

  /// Errors: `invalid_data` where no block came; `io`.
  void finish() {
    if (!writer_) throw Error{Errc::invalid_data, attempted_, "there is no block", "look at their source"};
    stream_->check(writer_->Close(), attempted_);
    file_.finish();
  }

 private:
  void begin(Dataset const& block, std::shared_ptr<arrow::Schema> const& schema) {
    first_columns_ = without_rows(block);
    first_names_ = block.column_names();
    stream_ = std::make_shared<NewFileStream>(file_);
    auto opened = Format::open(stream_, schema);
    stream_->check(opened.status(), attempted_);
    writer_ = std::move(opened).ValueUnsafe();
  }

  using Writer = decltype(Format::open(std::shared_ptr<NewFileStream>{}, nullptr))::ValueType;

  std::string attempted_;
  NewFile file_;
  Dataset first_columns_;  ///< Of the first block, without its rows.
  std::vector<std::string> first_names_;
  std::shared_ptr<NewFileStream> stream_;
  Writer writer_{};
};

}  // namespace raytrain::detail
