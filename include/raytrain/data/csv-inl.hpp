// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/csv_pieces.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/growing_column.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/parse_number.hpp>
#include <raytrain/data/detail/piece_of_lines.hpp>
#include <raytrain/data/detail/pieces_ahead.hpp>
#include <raytrain/data/detail/read_each.hpp>
#include <raytrain/data/detail/row_turns.hpp>
#include <raytrain/data/detail/shown_field.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto without_blanks(std::string_view text) -> std::string_view {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

RAYTRAIN_INLINE auto is_missing_csv_field(std::string_view field) -> bool {
  static constexpr std::array<std::string_view, 11> missing{"",     "NA",   "N/A", "n/a", "#N/A", "<NA>",
                                                            "null", "NULL", "NaN", "nan", "?"};
  auto const bare = without_blanks(field);
  auto const first = bare.empty() ? '?' : bare.front();
  // Of most fields the first character tells.
  if (first != 'N' && first != 'n' && first != '#' && first != '<' && first != '?') return false;
  return std::ranges::find(missing, bare) != missing.end();
}

RAYTRAIN_INLINE auto CsvColumn::add(std::string_view field) -> bool {
  auto const begins_number = !field.empty() && ((field.front() >= '0' && field.front() <= '9') || field.front() == '-');
  if (begins_number && column_.holds_numbers()) return column_.add_number(without_blanks(field));
  auto const bare = without_blanks(field);
  if (is_missing_csv_field(bare)) return column_.add_missing();
  auto const is_number = [&] {
    float ignored{};
    return parse_number(bare, ignored) != std::errc::invalid_argument;
  };
  if (column_.is_text() || (!column_.is_decided() && !is_number())) return column_.add_text(field);
  return column_.add_number(bare);
}

RAYTRAIN_INLINE CsvTable::CsvTable(CsvOptions const& options, std::string attempted, RowTurns const& turns)
    : options_{options},
      attempted_{std::move(attempted)},
      rows_left_{options.max_rows.value_or(std::numeric_limits<std::size_t>::max())},
      turns_{turns},
      end_of_block_{turns.end_of_block(0)} {
  if (!options.header && !options.column_names.empty()) begin(options.column_names);
}

RAYTRAIN_INLINE void CsvTable::field(std::string_view text, std::uint64_t line) {
  if (is_full()) return;
  if (!begun_) {
    constexpr std::size_t most = std::size_t{1} << 22U;      // so that no line of delimiters takes all memory
    auto& fields = options_.header ? header_ : first_line_;  // without a header names follow from how many there are
    if (fields.size() == most) {
      refuse(fmt::format("line {} has more than {} fields", line, most), "look whether its lines end");
    }
    fields.emplace_back(text);
    return;
  }
  add(text, line);
}

RAYTRAIN_INLINE void CsvTable::end_line(std::uint64_t line) {
  if (is_full()) return;
  if (!begun_ && options_.header) {
    if (!options_.column_names.empty() && options_.column_names.size() != header_.size()) {
      refuse(fmt::format("the header has {} columns, and CsvOptions::column_names {}", header_.size(),
                         options_.column_names.size()),
             "name all of them");
    }
    begin(options_.column_names.empty() ? header_ : options_.column_names);
    return;
  }
  if (!begun_) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < first_line_.size(); ++i) names.push_back(std::to_string(i));
    begin(names);
    for (auto const& text : first_line_) add(text, line);
  }
  if (is_kept_ && next_ != slots_.size()) {
    refuse(fmt::format("line {} has {} fields, and there are {} columns", line, next_, slots_.size()),
           "look for a delimiter that is missing, or choose another CsvOptions::delimiter");
  }
  next_ = 0;
  if (is_kept_) ++rows_;
  --rows_left_;
  if (++row_ < end_of_block_) return;
  for (auto& column : columns_) column.decide();  // of the first block, whichever of the others are taken
  begin_row(row_);
}

RAYTRAIN_INLINE void CsvTable::begin_row(std::uint64_t row) {
  row_ = row;
  is_kept_ = turns_.keeps(row);
  end_of_block_ = turns_.end_of_block(row);
}

RAYTRAIN_INLINE void CsvTable::take_text(std::string_view text, CsvScanner& scanner, bool is_last) {
  auto const take_field = [&](std::string_view field) { this->field(field, scanner.line_number()); };
  auto const end_line = [&] { this->end_line(scanner.line_number()); };
  scanner.feed(text, take_field, end_line);
  if (is_last) scanner.finish(take_field, end_line);
  if (scanner.problem() && !is_full()) {
    refuse(*scanner.problem(), "close the quotes, double those inside of a field, and look whether it is a CSV file");
  }
}

RAYTRAIN_INLINE auto CsvTable::has_types() const noexcept -> bool {
  return begun_ && std::ranges::all_of(columns_, &CsvColumn::has_type);
}

RAYTRAIN_INLINE auto CsvTable::take() -> Dataset {
  rows_ = 0;
  std::vector<Column> columns;
  for (auto& column : columns_) columns.push_back(column.take());
  return Dataset::from_columns(std::move(columns));
}

RAYTRAIN_INLINE void CsvTable::refuse(std::string happened, std::string remedy) const {
  throw Error{Errc::invalid_data, attempted_, std::move(happened), std::move(remedy)};
}

RAYTRAIN_INLINE void CsvTable::begin(std::vector<std::string> const& names) {
  begun_ = true;
  std::unordered_map<std::string_view, std::size_t> columns_by_name;
  for (auto const& name : names) {
    if (!columns_by_name.emplace(name, columns_by_name.size()).second) {
      refuse(fmt::format("two columns are named '{}'", name), "give all of them a name by CsvOptions::column_names");
    }
  }
  auto const& kept = options_.columns.empty() ? names : options_.columns;
  slots_.assign(names.size(), left_out);
  for (auto const& name : kept) {
    if (name.empty()) {
      refuse("a column has no name, as that of row numbers in the files of pandas",
             "name all by CsvOptions::column_names, or leave it out by CsvOptions::columns");
    }
    auto const found = columns_by_name.find(name);
    if (found == columns_by_name.end()) not_there("columns", name, names);
    auto const type = options_.types.find(name);
    slots_[found->second] = columns_.size();
    columns_.emplace_back(name, type == options_.types.end() ? std::nullopt : std::optional{type->second});
  }
  for (auto const& [name, type] : options_.types) {
    if (!columns_by_name.contains(name)) not_there("types", name, names);
  }
}

RAYTRAIN_INLINE void CsvTable::not_there(char const* field, std::string const& name,
                                         std::vector<std::string> const& names) const {
  throw Error{Errc::not_found, attempted_,
              fmt::format("CsvOptions::{} names '{}', and the file has {}", field, name, fmt::join(names, ", ")),
              "name one of them"};
}

RAYTRAIN_INLINE void CsvTable::add(std::string_view text, std::uint64_t line) {
  auto const at = next_++;
  if (!is_kept_ || at >= slots_.size() || slots_[at] == left_out) return;
  auto& column = columns_[slots_[at]];
  if (column.add(text)) return;
  auto const* const kind = column.holds_booleans() ? "boolean" : "number";
  if (is_missing_csv_field(text)) {
    auto const* const remedy =
        column.holds_booleans()
            ? "fill it, leave the column out by CsvOptions::columns, or read it as CsvType::text, where values may be "
              "missing"
            : "fill it, leave the column out by CsvOptions::columns, or give it another of CsvOptions::types: "
              "CsvType::float64, which is exact up to 2^53 and has NaN there, or text for larger keys";
    refuse(fmt::format("line {}, column '{}': {} is missing ('{}')", line, column.name(),
                       column.holds_booleans() ? "a boolean" : "an integer", shown_field(text)),
           remedy);
  }
  refuse(fmt::format("line {}, column '{}': '{}' is not a {} that it can hold", line, column.name(), shown_field(text),
                     kind),
         fmt::format("write {}s, leave the column out by CsvOptions::columns, or give it another of CsvOptions::types, "
                     "which may be text",
                     kind));
}

RAYTRAIN_INLINE CsvFile::CsvFile(std::filesystem::path const& path, CsvOptions const& options, int threads,
                                 RowTurns const& turns)
    : file_{path},
      table_{options, fmt::format("read CSV file '{}'", path.string()), turns},
      scanner_{options.delimiter, options.skip_lines},
      delimiter_{options.delimiter},
      threads_{options.max_rows ? 1 : threads},
      turns_{turns} {
  file_.limit_unpacking(options.max_unpack_ratio, "CsvOptions::max_unpack_ratio");
}

RAYTRAIN_INLINE auto CsvFile::next(std::size_t rows) -> std::optional<Dataset> {
  turns_.check_keeps(row_, table_.attempted());
  row_ += rows;
  std::vector<Dataset> parts;
  std::size_t have = 0;
  auto const take = [&](Dataset part) {
    auto [now, later] = part.split_at(std::min(part.rows(), rows - have));
    left_ = std::move(later);
    have += now.rows();
    if (now.rows() > 0) parts.push_back(std::move(now));
  };
  if (left_.rows() > 0) take(std::exchange(left_, {}));
  while (!is_at_end_ && !table_.is_full() && (have + table_.rows() < rows || !table_.is_between_lines())) {
    if (can_read_pieces()) {
      if (table_.rows() > 0) take(table_.take());
      begin_pieces();
    } else {
      feed();
    }
  }
  if (table_.rows() > 0) take(table_.take());
  while (read_ahead_ && have < rows) {
    auto part = read_ahead_->take();
    if (part) {
      seen_ += part->rows;
      take(std::move(part->kept));
    } else {
      read_ahead_.reset();
    }
  }
  if (!parts.empty()) {
    has_rows_ = true;
    return join_rows(parts, table_.attempted());
  }
  if (!has_rows_) table_.refuse("there are no rows", "look at the file, and at CsvOptions::skip_lines and header");
  return std::nullopt;
}

RAYTRAIN_INLINE auto CsvFile::skip(std::size_t rows) -> bool {
  if (turns_.keeps(row_)) return next(rows).has_value();
  while (seen_ <= row_) {
    if (!read_on()) return false;
  }
  row_ += rows;
  return true;
}

RAYTRAIN_INLINE auto CsvFile::read_on() -> bool {
  if (read_ahead_) {
    auto part = read_ahead_->take();
    if (!part) {
      read_ahead_.reset();
      return false;
    }
    seen_ += part->rows;
    left_ = std::move(part->kept);  // it was empty: all that was kept is of rows before
    return true;
  }
  if (is_at_end_ || table_.is_full()) return false;
  if (can_read_pieces()) {
    begin_pieces();
  } else {
    feed();
  }
  return true;
}

RAYTRAIN_INLINE auto CsvFile::can_read_pieces() const noexcept -> bool {
  constexpr std::size_t most_columns = 4096;  // of more, each piece of a column would take more than its rows
  return threads_ > 1 && !is_at_begin_ && table_.column_count() <= most_columns &&
         file_.disk_bytes() >= least_bytes_of_pieces && table_.has_types() && scanner_.begins_line();
}

RAYTRAIN_INLINE void CsvFile::begin_pieces() {
  // So large that a piece has some rows of a table of many columns.
  auto const bytes = std::max(bytes_of_piece, 1024 * table_.column_count());
  pieces_.emplace(file_, CsvPieces::Options{.text = {buffer_.data(), kept_bytes_},
                                            .line_number = scanner_.line_number(),
                                            .first_row = table_.next_row(),
                                            .delimiter = delimiter_,
                                            .piece_bytes = bytes});
  auto const maker = [this] {
    return [this, table = table_](PieceOfRows const& piece) mutable -> Part {
      if (piece.rows && !turns_.keeps_any(piece.first_row, *piece.rows)) return {{}, *piece.rows};
      auto scanner = CsvScanner::from_line(delimiter_, piece.line_number);
      table.begin_row(piece.first_row);
      table.take_text(piece.text, scanner, true);
      auto const rows = table.next_row() - piece.first_row;
      return {table.take(), rows};
    };
  };
  read_ahead_.emplace(
      threads_, [this] { return pieces_->next(); }, maker);
  is_at_end_ = true;  // the pieces have the rest
}

RAYTRAIN_INLINE void CsvFile::feed() {
  auto const count = file_.read(std::as_writable_bytes(std::span{buffer_}.subspan(kept_bytes_)));
  is_at_end_ = count == 0;
  std::string_view const text{buffer_.data(), kept_bytes_ + count};
  auto const last = is_at_end_ ? std::string_view::npos : text.find_last_of("\r\n");
  auto piece = text.substr(0, last == std::string_view::npos ? last : last + 1);
  auto const rest = text.substr(piece.size());
  if (std::exchange(is_at_begin_, false)) piece = without_byte_order_mark(piece, table_.attempted());
  table_.take_text(piece, scanner_, is_at_end_);
  seen_ = table_.next_row();
  std::ranges::copy(rest, buffer_.begin());
  kept_bytes_ = rest.size();
}

/// Errors: `invalid_config` for what can work with no file.
RAYTRAIN_INLINE void check_csv_options(CsvOptions const& options) {
  auto const refuse_delimiter = [](char const* what) {
    throw Error{Errc::invalid_config, "CsvOptions::delimiter", what,
                "write what is between the fields of a line, as ',', ';' or '\\t'"};
  };
  switch (options.delimiter) {
    case '"': refuse_delimiter("is the quote, which begins and ends fields"); break;
    case '\n': refuse_delimiter("is a line feed, which ends lines"); break;
    case '\r': refuse_delimiter("is a carriage return, which ends lines"); break;
    case '\0': refuse_delimiter("is NUL, which no text has"); break;
    default: break;
  }
  if (options.max_rows == std::size_t{0}) {
    throw Error{Errc::invalid_config, "CsvOptions::max_rows", "is 0", "write at least 1, or leave it out for all rows"};
  }
  for (auto const& [field, names] : {std::pair{"CsvOptions::column_names", &options.column_names},
                                     std::pair{"CsvOptions::columns", &options.columns}}) {
    std::unordered_set<std::string_view> seen;
    for (auto const& name : *names) {
      if (!seen.insert(name).second) refuse_twice(field, name);
    }
  }
}

/// All that the columns of a file follow from, besides its content.
[[nodiscard]] RAYTRAIN_INLINE auto options_text(CsvOptions const& options) -> std::string {
  auto text = fmt::format("CSV, delimiter {}, {} lines skipped, {} header, names", static_cast<int>(options.delimiter),
                          options.skip_lines, options.header ? "with a" : "no");
  for (auto const& name : options.column_names) text += ' ' + exact_text(name);
  text += ", columns";
  for (auto const& name : options.columns) text += ' ' + exact_text(name);
  text += ", types";
  for (auto const& [name, type] : options.types)
    text += fmt::format(" {} {}", exact_text(name), static_cast<int>(type));
  if (options.max_rows) text += fmt::format(", {} rows at most", *options.max_rows);
  return text;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto read_csv(DataPaths const& paths, CsvOptions const& options) -> Dataset {
  detail::check_csv_options(options);
  constexpr auto all = std::numeric_limits<std::size_t>::max();
  return detail::read_each(paths, [&](auto const& path, int threads) {
    return *detail::CsvFile{path, options, threads}.next(all);
  });
}

RAYTRAIN_INLINE auto csv_blocks(DataPaths const& paths, CsvOptions options, std::size_t rows) -> DatasetBlocks {
  detail::check_csv_options(options);
  auto const threads = static_cast<int>(std::min<std::size_t>(usable_core_count(), 8));  // which bounds the memory
  auto format = detail::options_text(options);
  struct Reading {
    explicit Reading(CsvOptions given) : options{std::move(given)} {}

    CsvOptions options;
    std::optional<detail::CsvFile> file{};
  };
  auto const reading = std::make_shared<Reading>(std::move(options));
  auto const open = [=](std::filesystem::path const& path, detail::RowTurns const& turns) {
    reading->file.emplace(path, reading->options, threads, turns);
  };
  return detail::file_blocks(paths, {.function = "csv_blocks",
                                     .format = std::move(format),
                                     .rows = rows,
                                     .open = open,
                                     .next = [=] { return reading->file->next(rows); },
                                     .skip = [=] { return reading->file->skip(rows); }});
}

}  // namespace raytrain
