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

namespace raytrain::detail {

/// The rows of a file, as a `Table`, which is `JsonTable` or `LibsvmTable`, makes them of lines. Of a large file
/// several threads make rows ahead, once the table says that what follows is alike.
template <class Table>
class RowsOfLines {
 public:
  /// `threads`: those that read it, from 1. `bytes`: of a piece that a thread takes at a time.
  RowsOfLines(std::filesystem::path const& path, std::uint64_t most_unpack_ratio, int threads,
              std::size_t bytes = bytes_of_piece)
      : lines_{path, most_unpack_ratio, Table::options_name() + "::max_unpack_ratio"},
        threads_{threads},
        piece_bytes_{bytes} {}

  /// To the same table each time, until it has so many or the file ends.
  void add_to(Table& table, std::size_t rows) {
    while (table.rows() < rows) {
      if (!ahead_ && can_read_ahead(table)) read_ahead(table);
      if (!ahead_) {
        if (!add_line(table, lines_)) return;
      } else {
        if (!part_ && !take_part(table)) return;
        add_part(table, rows);
      }
    }
  }

 private:
  /// What a thread makes of a piece.
  struct Part {
    PieceOfLines piece;
    std::optional<Table> rows;  ///< None where the table has to see the lines itself, to learn of them or refuse one.
    std::size_t added = 0;      ///< Of the rows.
    std::optional<LinesOfPiece> lines{};  ///< Those that are left, instead of rows.
  };

  /// False at the end.
  template <class Lines>
  static auto add_line(Table& table, Lines& lines) -> bool {
    auto const line = lines.next();
    if (line) table.add_line(*line, lines.number());
    return line.has_value();
  }

  /// Behind the first line, which may have a byte order mark.
  [[nodiscard]] auto can_read_ahead(Table const& table) const -> bool {
    return threads_ > 1 && lines_.number() > 0 && lines_.disk_bytes() >= least_bytes_of_pieces && table.is_settled();
  }

  void read_ahead(Table const& table) {
    learn_from(table);
    auto const make = [this](PieceOfLines piece) { return part_of(std::move(piece)); };
    ahead_.emplace(
        threads_, [this] { return lines_.next_piece(piece_bytes_); }, [make] { return make; });
  }

  /// On any thread.
  [[nodiscard]] auto part_of(PieceOfLines piece) const -> Part {
    auto const like = [&] {
      std::lock_guard const lock{mutex_};
      return like_;
    }();
    std::optional<Table> rows{*like};
    try {
      for (LinesOfPiece lines{piece}; add_line(*rows, lines);) {
      }
    } catch (Error const&) {
      rows.reset();
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

  void add_part(Table& table, std::size_t rows) {
    if (!part_->lines) {
      auto const count = std::min(rows - table.rows(), part_->rows->rows() - part_->added);
      table.add_rows(*part_->rows, part_->added, count);
      part_->added += count;
      if (part_->added == part_->rows->rows()) part_.reset();
      return;
    }
    while (table.rows() < rows) {
      if (add_line(table, *part_->lines)) continue;
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
  int threads_;
  std::size_t piece_bytes_;
  std::optional<Part> part_;  ///< Whose rows are added.
  mutable std::mutex mutex_;
  std::shared_ptr<Table const> like_;                     ///< What parts are made by.
  std::optional<PiecesAhead<PieceOfLines, Part>> ahead_;  ///< Its threads use the above, but for `part_`.
};

/// The rows of all files as a `Table` makes them of lines.
template <class Table, class Options>
[[nodiscard]] auto table_of_lines(DataPaths const& paths, Options const& options) -> Dataset {
  Table table{options};
  for (auto const& path : paths.files()) {
    read_unchanged(path, [&] {
      table.begin_file(path.string());
      RowsOfLines<Table>{path, options.max_unpack_ratio, static_cast<int>(usable_core_count())}.add_to(
          table, std::numeric_limits<std::size_t>::max());
    });
  }
  table.finish();  // first, since a column that no line has would lack its integers
  return table.take();
}

/// The same in `blocks`, whose `next` and `finish` are made here.
template <class Table, class Options>
[[nodiscard]] auto blocks_of_lines(DataPaths const& paths, Options options, FileBlocksOptions blocks) -> DatasetBlocks {
  struct Reading {
    explicit Reading(Options given) : options{std::move(given)} {}

    Options options;
    Table table{options};
    std::optional<RowsOfLines<Table>> file{};  // that is read
  };
  auto const reading = std::make_shared<Reading>(std::move(options));
  auto const threads = static_cast<int>(std::min<std::size_t>(usable_core_count(), 8));  // which bounds the memory
  blocks.next = [reading, rows = blocks.rows, threads](std::filesystem::path const& path,
                                                       bool begins) -> std::optional<Dataset> {
    auto& [kept, table, file] = *reading;
    if (begins) {
      table.begin_file(path.string());
      file.emplace(path, kept.max_unpack_ratio, threads);
    }
    file->add_to(table, rows);
    if (table.rows() == 0) return std::nullopt;
    return table.take();
  };
  blocks.finish = [reading] { reading->table.finish(); };
  return file_blocks(paths, std::move(blocks));
}

}  // namespace raytrain::detail
