// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/detail/line_reader.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>
#include <raytrain/data/detail/pieces_ahead.hpp>
#include <raytrain/data/detail/row_turns.hpp>

namespace raytrain::detail {

/// The rows of a file, as a `Table`, which is `JsonTable` or `LibsvmTable`, makes them of lines. Of a large file
/// several threads make rows ahead, once the table says that what follows is alike.
template <class Table>
class RowsOfLines {
 public:
  /// How a file is read.
  struct Options {
    std::uint64_t most_unpack_ratio;
    int threads = 1;                           ///< Those that read it, from 1.
    RowTurns turns{};                          ///< Of the rows that are added, where others are skipped.
    std::size_t piece_bytes = bytes_of_piece;  ///< That a thread takes at a time.
  };

  RowsOfLines(std::filesystem::path const& path, Options const& options)
      : lines_{path, options.most_unpack_ratio, Table::options_name() + "::max_unpack_ratio"},
        attempted_{"read '" + path.string() + '\''},
        options_{options} {}

  /// Adds so many rows, as far as there are, to the same table each time. Where blocks take turns, `rows` is a block's.
  ///
  /// Errors: also `invalid_call` for rows that were to be skipped.
  void add_to(Table& table, std::size_t rows) {
    if (!is_at_end_) options_.turns.check_keeps(row_, attempted_);
    go_on(table, rows, true);
  }

  /// Passes over so many rows, as far as there are; it only looks for their ends. False at the end of the file.
  /// `table`: that of `add_to`.
  [[nodiscard]] auto skip(Table& table, std::size_t rows) -> bool {
    auto const first = row_;
    go_on(table, rows, false);
    return row_ > first;
  }

 private:
  /// What a thread makes of a piece.
  struct Part {
    PieceOfRows piece;
    /// Of the rows that turns keep. None where the table has to see the lines itself, to learn of them or refuse one.
    std::optional<Table> rows;
    std::size_t at = 0;                   ///< The row of these that comes next.
    std::optional<LinesOfPiece> lines{};  ///< Those that are left, instead of rows.

    [[nodiscard]] auto end_row() const -> std::uint64_t { return piece.first_row + *piece.rows; }
  };

  void go_on(Table& table, std::size_t rows, bool are_added) {
    constexpr auto last = std::numeric_limits<std::uint64_t>::max();
    auto const end = rows > last - row_ ? last : row_ + rows;
    while (row_ < end && !is_at_end_) {
      if (!ahead_ && can_read_ahead(table)) read_ahead(table);
      if (!ahead_) {
        is_at_end_ = !pass_line(table, lines_, are_added);
      } else if (part_ || take_part(table)) {
        pass_part(table, end, are_added);
      } else {
        is_at_end_ = true;
      }
    }
  }

  /// False at the end.
  template <class Lines>
  auto pass_line(Table& table, Lines& lines, bool is_added) -> bool {
    auto const line = lines.next();
    if (!line) return false;
    if (is_added) table.add_line(*line, lines.number());
    if (Table::is_row(*line)) ++row_;
    return true;
  }

  /// Behind the first line, which may have a byte order mark.
  [[nodiscard]] auto can_read_ahead(Table const& table) const -> bool {
    return options_.threads > 1 && lines_.number() > 0 && lines_.disk_bytes() >= least_bytes_of_pieces &&
           table.is_settled();
  }

  void read_ahead(Table const& table) {
    learn_from(table);
    auto const next = [this, row = row_]() mutable {
      auto piece = lines_.next_piece(options_.piece_bytes, &Table::is_row);
      if (piece) piece->first_row = std::exchange(row, row + *piece->rows);
      return piece;
    };
    auto const make = [this](PieceOfRows piece) { return part_of(std::move(piece)); };
    ahead_.emplace(options_.threads, next, [make] { return make; });
  }

  /// On any thread.
  [[nodiscard]] auto part_of(PieceOfRows piece) const -> Part {
    auto const like = [&] {
      std::lock_guard const lock{mutex_};
      return like_;
    }();
    std::optional<Table> rows{*like};
    if (options_.turns.keeps_any(piece.first_row, *piece.rows)) {
      try {
        auto row = piece.first_row;
        for (LinesOfPiece lines{piece}; auto const line = lines.next();) {
          if (options_.turns.keeps(row)) rows->add_line(*line, lines.number());
          row += Table::is_row(*line) ? 1 : 0;
        }
      } catch (Error const&) {
        rows.reset();
      }
    }
    return {std::move(piece), std::move(rows)};
  }

  /// False at the end of the file.
  [[nodiscard]] auto take_part(Table const& table) -> bool {
    auto part = ahead_->take();
    if (!part) return false;
    part_.emplace(*std::move(part));
    if (!part_->rows || !table.takes(*part_->rows)) part_->lines.emplace(part_->piece);
    return true;
  }

  void pass_part(Table& table, std::uint64_t end, bool is_added) {
    if (!part_->lines) {
      auto const count = static_cast<std::size_t>(std::min(end, part_->end_row()) - row_);
      if (is_added) table.add_rows(*part_->rows, part_->at, count);
      if (options_.turns.keeps(row_)) part_->at += count;
      row_ += count;
      if (row_ == part_->end_row()) part_.reset();
      return;
    }
    while (row_ < end) {
      if (pass_line(table, *part_->lines, is_added)) continue;
      part_.reset();
      if (table.is_settled()) learn_from(table);
      return;
    }
  }

  /// For parts that are made from now on.
  void learn_from(Table const& table) {
    auto like = std::make_shared<Table const>(table.without_rows());
    std::lock_guard const lock{mutex_};
    like_ = std::move(like);
  }

  LineReader lines_;
  std::string attempted_;
  Options options_;
  std::uint64_t row_ = 0;  ///< Of the file, which comes next.
  bool is_at_end_ = false;
  std::optional<Part> part_;  ///< Whose rows come next.
  mutable std::mutex mutex_;
  std::shared_ptr<Table const> like_;                    ///< What parts are made by.
  std::optional<PiecesAhead<PieceOfRows, Part>> ahead_;  ///< Its threads use lines, options and what parts are made by.
};

/// The rows of all files as a `Table` makes them of lines.
template <class Table, class Options>
[[nodiscard]] auto table_of_lines(DataPaths const& paths, Options const& options) -> Dataset {
  Table table{options};
  for (auto const& path : paths.files()) {
    read_unchanged(path, [&] {
      table.begin_file(path.string());
      RowsOfLines<Table> file{path, {options.max_unpack_ratio, static_cast<int>(usable_core_count())}};
      file.add_to(table, std::numeric_limits<std::size_t>::max());
    });
  }
  table.finish();  // first, since a column that no line has would lack its integers
  return table.take();
}

/// The same in `blocks`, whose functions are made here. The first block is made also where it is skipped, since types
/// and row shapes follow from it.
template <class Table, class Options>
[[nodiscard]] auto blocks_of_lines(DataPaths const& paths, Options options, FileBlocksOptions blocks) -> DatasetBlocks {
  struct Reading {
    explicit Reading(Options given) : options{std::move(given)} {}

    Options options;
    Table table{options};
    std::optional<RowsOfLines<Table>> file{};
    bool has_rows = false;     // the first block was made
    bool has_skipped = false;  // without a look at what the lines have
  };
  auto const reading = std::make_shared<Reading>(std::move(options));
  auto const threads = static_cast<int>(std::min<std::size_t>(usable_core_count(), 8));  // which bounds the memory
  blocks.open = [reading, threads](std::filesystem::path const& path, RowTurns const& turns) {
    reading->table.begin_file(path.string());
    reading->file.emplace(
        path, typename RowsOfLines<Table>::Options{.most_unpack_ratio = reading->options.max_unpack_ratio,
                                                   .threads = threads,
                                                   .turns = reading->has_rows ? turns.with_known_types() : turns});
  };
  blocks.next = [reading, rows = blocks.rows]() -> std::optional<Dataset> {
    reading->file->add_to(reading->table, rows);
    if (reading->table.rows() == 0) return std::nullopt;
    reading->has_rows = true;
    return reading->table.take();
  };
  blocks.skip = [reading, rows = blocks.rows, next = blocks.next] {
    if (!reading->has_rows) return next().has_value();
    auto const is_block = reading->file->skip(reading->table, rows);
    reading->has_skipped = reading->has_skipped || is_block;
    return is_block;
  };
  blocks.finish = [reading] {
    if (!reading->has_skipped) reading->table.finish();
  };
  return file_blocks(paths, std::move(blocks));
}

}  // namespace raytrain::detail
