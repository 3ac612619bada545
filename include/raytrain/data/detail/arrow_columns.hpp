// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arrow/api.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/arrow_column.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/growing_column.hpp>
#include <raytrain/data/detail/row_turns.hpp>

namespace raytrain::detail {

/// The columns that are made of files of Arrow's tables, one file after the other.
class ArrowColumns {
 public:
  using Types = std::map<std::string, ElementType, std::less<>>;

  /// `options`: the struct that has `kept` and `types` as its `columns` and `types`, for errors: "ParquetOptions".
  ArrowColumns(std::string options, std::vector<std::string> kept, Types types)
      : options_{std::move(options)}, kept_{std::move(kept)}, types_{std::move(types)} {}

  /// The next rows are of a file, `what`, that has these columns. The first file's are chosen from; a later one must
  /// have the same.
  void begin_file(std::vector<std::string> const& there, std::string what) {
    what_ = std::move(what);
    std::unordered_multimap<std::string_view, std::size_t> places;
    for (std::size_t place = 0; place < there.size(); ++place) places.emplace(there[place], place);
    auto const place_of = [&](std::string const& name, std::string const& why) {
      auto const count = places.count(name);
      if (count == 1) return places.find(name)->second;
      throw Error{count == 0 ? Errc::not_found : Errc::invalid_data, "reading " + what_,
                  count == 0 ? fmt::format("{} '{}', and the file has {}", why, name, fmt::join(there, ", "))
                             : fmt::format("{} columns are called '{}'", count, name),
                  fmt::format("name those that there are once by {}::columns", options_)};
    };
    places_.clear();
    if (columns_.empty()) {
      choose(there, place_of);
      return;
    }
    for (auto const& column : columns_) {
      places_.push_back(place_of(column.name(), "the files before have the column"));
    }
    if (kept_.empty() && there.size() != columns_.size()) {
      throw Error{Errc::invalid_data, "reading " + what_,
                  fmt::format("it has {} columns, and the files before have {}", there.size(), columns_.size()),
                  fmt::format("name those that all have by {}::columns", options_)};
    }
  }

  /// Where the file has the columns, in their order.
  [[nodiscard]] auto places() const noexcept -> std::vector<std::size_t> const& { return places_; }

  /// The next rows, of the columns that were chosen or more. Errors: `invalid_data` where they lack one.
  void add(arrow::Table const& rows) {
    for (auto& column : columns_) {
      for (auto const& chunk : column_of(rows, column.name())->chunks()) column.add(chunk, what_);
    }
    has_rows_ = has_rows_ || rows.num_rows() > 0;
  }
  void add(arrow::RecordBatch const& rows) {
    for (auto& column : columns_) column.add(column_of(rows, column.name()), what_);
    has_rows_ = has_rows_ || rows.num_rows() > 0;
  }

  /// The rows that came since the last time: at least one must have come.
  [[nodiscard]] auto take() -> Dataset {
    std::vector<Column> columns;
    for (auto& column : columns_) columns.push_back(column.take());
    return Dataset::from_columns(std::move(columns));
  }

  /// Whether rows have come, from which the types follow.
  [[nodiscard]] auto has_rows() const noexcept -> bool { return has_rows_; }

  /// Behind the last file. Errors: `invalid_data` where there was no row.
  void finish() const {
    if (has_rows_) return;
    throw Error{Errc::invalid_data, "reading " + what_, "there are no rows", "look at what has written it"};
  }

 private:
  /// A group of no columns has none, which a file's schema may name.
  template <class Rows>
  [[nodiscard]] auto column_of(Rows const& rows, std::string const& name) const
      -> decltype(rows.GetColumnByName(name)) {
    auto found = rows.GetColumnByName(name);
    if (found) return found;
    throw Error{Errc::invalid_data, "reading " + what_,
                fmt::format("its rows have no column '{}', and its schema has", name),
                fmt::format("leave it out by {}::columns, or write the file again", options_)};
  }

  template <class PlaceOf>
  void choose(std::vector<std::string> const& there, PlaceOf const& place_of) {
    auto const& kept = kept_.empty() ? there : kept_;
    std::unordered_set<std::string_view> left_over{kept.begin(), kept.end()};
    for (auto const& [name, type] : types_) {
      (void)place_of(name, options_ + "::types names");
      if (!left_over.contains(name)) {
        throw Error{Errc::invalid_config, options_ + "::types",
                    fmt::format("names '{}', which {}::columns leaves out", name, options_),
                    "name it there, too, or leave out its type"};
      }
    }
    for (auto const& name : kept) {
      if (name.empty()) {
        throw Error{Errc::invalid_data, "reading " + what_, "a column has no name",
                    fmt::format("name those that are to be read by {}::columns", options_)};
      }
      places_.push_back(place_of(name, options_ + "::columns names"));
      if (left_over.erase(name) == 0) refuse_twice(options_ + "::columns", name);
      auto const type = types_.find(name);
      columns_.emplace_back(name, type == types_.end() ? std::nullopt : std::optional{type->second}, options_);
    }
    if (columns_.empty()) {
      throw Error{Errc::invalid_data, "reading " + what_, "there are no columns", "look at what has written it"};
    }
  }

  std::string options_;
  std::vector<std::string> kept_;
  Types types_;
  std::string what_;
  std::vector<ArrowColumn> columns_;
  std::vector<std::size_t> places_;
  bool has_rows_ = false;
};

/// The blocks of files that a `Table`, which is `ParquetTable` or `ArrowTable`, reads. The first block is made also
/// where it is skipped, since types and row shapes follow from it.
template <class Table>
[[nodiscard]] auto blocks_of_tables(DataPaths const& paths, std::shared_ptr<Table> const& table,
                                    FileBlocksOptions blocks) -> DatasetBlocks {
  blocks.open = [table](std::filesystem::path const& path, RowTurns const& /*turns*/) { table->begin_file(path); };
  blocks.next = [table]() -> std::optional<Dataset> {
    if (!table->read_block()) return std::nullopt;
    return table->take();
  };
  blocks.skip = [table, next = blocks.next] { return table->has_rows() ? table->skip_block() : next().has_value(); };
  blocks.finish = [table] { table->finish(); };
  return file_blocks(paths, std::move(blocks));
}

/// All that the columns follow from, besides the content of the files; `format` begins it.
template <class Options>
[[nodiscard]] auto options_text(std::string_view format, Options const& options) -> std::string {
  auto text = fmt::format("{}, columns", format);
  for (auto const& name : options.columns) text += ' ' + exact_text(name);
  text += ", types";
  for (auto const& [name, type] : options.types) text += fmt::format(" {} {}", exact_text(name), to_string(type));
  return text;
}

}  // namespace raytrain::detail
