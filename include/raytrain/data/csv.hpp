// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/csv_pieces.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/growing_column.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>
#include <raytrain/data/detail/pieces_ahead.hpp>
#include <raytrain/data/detail/row_turns.hpp>

namespace raytrain {

/// How a CSV file is read.
struct CsvOptions {
  char delimiter = ',';                     ///< Between fields; no quote, no end of lines and not NUL.
  std::size_t skip_lines = 0;               ///< At the beginning, before the header.
  bool header = true;                       ///< The first line names the columns.
  std::vector<std::string> column_names{};  ///< Instead of the header's; empty: those, or "0", "1" ... without one.
  std::vector<std::string> columns{};       ///< To be kept, in this order; empty: all.
  std::optional<std::size_t> max_rows{};    ///< Of each file the first ones, at least 1; left out: all.
  /// The types of columns; of one that is not named, its first field that is not missing decides: a number makes it
  /// float32, anything else text. Whole numbers that float32 has not, from 16,777,217 on, as dates and keys, are
  /// refused there. A field is missing that is empty or one of NA, N/A, n/a, #N/A, <NA>, null, NULL, NaN, nan and ?:
  /// that is a NaN to a float, no text to text, and refused for an integer and a boolean.
  std::map<std::string, CsvType, std::less<>> types{};
  /// A compressed file is refused that unpacks to more than 64 MiB and more than so many times its size, as one does
  /// that is made to fill the memory; in blocks, too.
  std::size_t max_unpack_ratio = 200;
};

namespace detail {

/// Whether it stands for no value, blanks around it left aside.
[[nodiscard]] auto is_missing_csv_field(std::string_view field) -> bool;

/// A column of a CSV file that grows line by line.
class CsvColumn {
 public:
  /// Without a type, the first field decides that is not missing.
  CsvColumn(std::string name, std::optional<CsvType> type) : column_{std::move(name), type} {}

  [[nodiscard]] auto name() const noexcept -> std::string const& { return column_.name(); }
  [[nodiscard]] auto holds_booleans() const noexcept -> bool { return column_.holds_booleans(); }
  [[nodiscard]] auto has_type() const noexcept -> bool { return column_.is_decided(); }

  /// False when the text is no such number, or boolean.
  [[nodiscard]] auto add(std::string_view field) -> bool;

  /// Without a type and a field so far, it is float32.
  void decide() noexcept { column_.decide(); }

  /// The rows that came since the last time.
  [[nodiscard]] auto take() -> Column { return column_.take(); }

 private:
  GrowingColumn column_;
};

/// Makes columns of the fields of a CSV file.
class CsvTable {
 public:
  /// `turns`: of the rows that it keeps; the fields of others are counted.
  CsvTable(CsvOptions const& options, std::string attempted, RowTurns const& turns = {});

  /// What follows in the file, as `scanner` cuts it. `is_last`: nothing comes behind it.
  void take_text(std::string_view text, CsvScanner& scanner, bool is_last);

  /// What follows begins with this row of the file.
  void begin_row(std::uint64_t row);

  /// The row of the file that comes next.
  [[nodiscard]] auto next_row() const noexcept -> std::uint64_t { return row_; }

  /// Whether it has as many rows as it may have of the file; what follows is not looked at.
  [[nodiscard]] auto is_full() const noexcept -> bool { return rows_left_ == 0; }

  /// Rows that it has kept since the last `take`.
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return rows_; }

  [[nodiscard]] auto column_count() const noexcept -> std::size_t { return columns_.size(); }

  /// Whether every column has a type, which the rows that come do not change.
  [[nodiscard]] auto has_types() const noexcept -> bool;

  /// Whether no line has begun that has not ended yet.
  [[nodiscard]] auto is_between_lines() const noexcept -> bool { return next_ == 0; }

  /// These rows, between lines; more may follow.
  [[nodiscard]] auto take() -> Dataset;

  [[nodiscard]] auto attempted() const noexcept -> std::string const& { return attempted_; }

  [[noreturn]] void refuse(std::string happened, std::string remedy) const;

 private:
  static constexpr std::size_t left_out = std::numeric_limits<std::size_t>::max();

  void field(std::string_view text, std::uint64_t line);

  void end_line(std::uint64_t line);

  void begin(std::vector<std::string> const& names);

  [[noreturn]] void not_there(char const* field, std::string const& name, std::vector<std::string> const& names) const;

  void add(std::string_view text, std::uint64_t line);

  CsvOptions const& options_;
  std::string attempted_;
  bool begun_ = false;
  std::vector<std::string> header_;
  std::vector<std::string> first_line_;
  std::vector<std::size_t> slots_;  ///< Which column a field goes to.
  std::vector<CsvColumn> columns_;
  std::size_t next_ = 0;
  std::size_t rows_ = 0;
  std::size_t rows_left_;
  RowTurns turns_;
  std::uint64_t row_ = 0;  ///< Of the file.
  bool is_kept_ = true;    ///< As the others of its block.
  std::uint64_t end_of_block_;
};

/// A CSV file, of which a part is in memory at a time.
class CsvFile {
 public:
  /// `options` outlive it. `threads`: those that read it, from 1. `turns`: of the rows that are taken, where others are
  /// skipped.
  CsvFile(std::filesystem::path const& path, CsvOptions const& options, int threads, RowTurns const& turns = {});

  /// So many rows, as far as there are. None at the end of the file.
  ///
  /// Errors: also `invalid_call` for rows that were to be skipped.
  [[nodiscard]] auto next(std::size_t rows) -> std::optional<Dataset>;

  /// Passes over so many rows, as far as there are. False at the end of the file.
  [[nodiscard]] auto skip(std::size_t rows) -> bool;

 private:
  struct Part {
    Dataset kept;  ///< Of the rows.
    std::uint64_t rows{};
  };

  /// More of the rows that are not kept, and perhaps some behind them that are. False at the end of the file.
  [[nodiscard]] auto read_on() -> bool;

  /// Takes the next piece of text up to its last line's end, so that only a row with a line's end in quotes, or longer
  /// than the buffer, is halved.
  void feed();

  /// Whether what follows is read by several threads: the columns have their types, and a line begins.
  [[nodiscard]] auto can_read_pieces() const noexcept -> bool;

  void begin_pieces();

  DataFile file_;
  CsvTable table_;
  CsvScanner scanner_;
  char delimiter_;
  int threads_;
  std::vector<char> buffer_ = std::vector<char>(std::size_t{1} << 18U);
  std::size_t kept_bytes_ = 0;  ///< At the buffer's begin, behind the last line's end.
  bool is_at_begin_ = true;
  bool is_at_end_ = false;
  bool has_rows_ = false;
  RowTurns turns_;
  std::uint64_t row_ = 0;   ///< Where the next block begins.
  std::uint64_t seen_ = 0;  ///< Rows of the file that came, kept or not.
  Dataset left_;            ///< Rows behind the last block, of the piece of text that has its last row.
  std::optional<CsvPieces> pieces_;
  /// The rows of pieces. Its threads use all of the above.
  std::optional<PiecesAhead<PieceOfRows, Part>> read_ahead_;
};

}  // namespace detail

/// The numbers and texts of a CSV file, plain, gzip or zstd, one column for each of its own. The rows of several files
/// follow one another; each has its own header, and the same columns as the first one, in any order.
///
/// Lines end with a line feed, a carriage return, or both. A number too small for its column is 0. Blanks around a
/// number do not count; they are part of a text.
/// Threads: reads several files at the same time, on all cores, and several pieces of a file of 4 MiB or more on disk,
///          once each column has its type: name `CsvOptions::types` where first fields are missing. With `max_rows`, or
///          more than 4,096 columns, one core reads a file.
/// Errors: those of `DataPaths::files`; `not_found` for a file or a column that is not there, listing those that are;
///         `io`, also for a file that is changed meanwhile; `invalid_data`, with the line, for one with more or fewer
///         fields than columns, more than 4,194,304 of them, a field that is no number or has more than 256 MiB, two
///         columns of one name or one without a name, no rows, for files whose columns differ, and beyond
///         `max_unpack_ratio`; `invalid_config`, before a file is looked at, for a delimiter that cannot be one, 0 rows
///         at most, and a name that comes twice.
/// Cost: the rows of several files, and of a large one on several cores, are copied once.
/// Source: RFC 4180 for quoted fields.
[[nodiscard]] auto read_csv(DataPaths const& paths, CsvOptions const& options = {}) -> Dataset;

/// The same rows in blocks, of which one is in memory at a time: for files that are larger than memory. Each has
/// `rows` rows, but for a file's last one. Of a file of 4 MiB or more, pieces are read ahead on up to 8 cores.
///
/// In each file the first block decides the type of a column; where all of its fields are missing there, it is float32.
/// Name such columns in `CsvOptions::types`: a text that comes later is refused. Each block of texts has categories of
/// its own, so that codes of two blocks do not compare, and may be others with another number of workers.
///
/// Errors: when the range is made, those of `DataPaths::files`, `not_found` or `io` for one, `invalid_config` as above,
///         and `invalid_call` for 0 rows. When a block is read, the others of `read_csv`, `not_found` for a column that
///         is not there or a file that was removed, and `io` for a file that was changed. Files with other columns are
///         not refused here. What is wrong in rows that are read ahead, up to 256 KiB of text behind a block, may be
///         told instead of that block. In blocks that a shard or a position skips a quote that does not close is
///         found, and nothing else, beside a file's first block.
/// Cost: of blocks that a shard or a position skips the rows are counted. They are parsed only in a file's first block,
///       and where the program calls `DatasetBlocks::skip` itself.
[[nodiscard]] auto csv_blocks(DataPaths const& paths, CsvOptions options = {}, std::size_t rows = 65'536)
    -> DatasetBlocks;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/csv-inl.hpp>
#endif
