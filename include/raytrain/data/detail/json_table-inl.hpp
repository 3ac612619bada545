// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/json_table.hpp>
#include <raytrain/data/detail/shown_field.hpp>
#include <raytrain/message/json_cursor.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void MissingValues::add(std::uint64_t values, std::string_view what) {
  values_ += values;
  if (is_enough()) return;
  throw Error{Errc::invalid_data, fmt::format("reading {}", what),
              fmt::format("{} values are missing up to here, more than 16 for each byte", values_),
              "keep fewer columns by JsonLinesOptions::columns, or read smaller blocks by json_lines_blocks"};
}

RAYTRAIN_INLINE auto MissingValues::add(MissingValues const& part) noexcept -> bool {
  bytes_ += part.bytes_;
  values_ += part.values_;
  return is_enough();
}

RAYTRAIN_INLINE auto MissingValues::share(std::size_t count, std::size_t rows) const noexcept -> MissingValues {
  auto part = *this;
  part.bytes_ = count == rows ? bytes_ : bytes_ * count / rows;
  part.values_ = count == rows ? values_ : values_ * count / rows;
  return part;
}

RAYTRAIN_INLINE void JsonColumn::add(JsonCursor& json, MissingValues& missing) {
  has_come_ = true;
  if (json.peek() == 'n') {
    json.word("null");
    return add_missing(json.what(), 1, missing);
  }
  auto const is_first = !dimensions_;
  if (json.peek() == '[') {
    add_array(json, 0);
    if (is_first) {
      for (auto const extent : shape_) row_values_ *= extent;
      missing.add(rows_ * row_values_, json.what());
      if (!column_.prepend_missing(rows_ * row_values_)) {
        refuse(json.what(), fmt::format("{} is missing in the lines before", one_value()));
      }
    }
  } else {
    if (is_first && !column_.add_missing(rows_)) {
      refuse(json.what(), fmt::format("{} is missing in the lines before", one_value()));
    }
    add_one(json, 0);
  }
  ++rows_;
}

RAYTRAIN_INLINE void JsonColumn::add_missing(std::string_view what, std::size_t rows, MissingValues& missing) {
  missing.add(rows * row_values_, what);
  rows_ += rows;
  // How many values these rows have, the first one tells that is there.
  if (dimensions_ && !column_.add_missing(rows * row_values_)) refuse(what, fmt::format("{} is missing", one_value()));
}

RAYTRAIN_INLINE auto JsonColumn::one_value() const noexcept -> std::string_view {
  return column_.holds_booleans() ? "a boolean" : "an integer";
}

RAYTRAIN_INLINE auto JsonColumn::is_settled() const noexcept -> bool {
  return has_come_ && dimensions_ && (column_.is_text() || kind_ != Kind::none);
}

RAYTRAIN_INLINE auto JsonColumn::without_rows() const -> JsonColumn {
  JsonColumn column{name(), std::nullopt};
  column.column_ = column_.without_values();
  column.has_come_ = has_come_;
  column.kind_ = kind_;
  column.dimensions_ = dimensions_;
  column.shape_ = shape_;
  column.row_values_ = row_values_;
  return column;
}

RAYTRAIN_INLINE void JsonColumn::add_rows(JsonColumn const& part, std::size_t first, std::size_t count) {
  column_.add_values(part.column_, first * row_values_, count * row_values_);
  rows_ += count;
}

RAYTRAIN_INLINE auto JsonColumn::take(std::string_view what) -> Column {
  if (!dimensions_ && !column_.add_missing(rows_)) {
    refuse(what, has_come_ ? fmt::format("{} are missing in all lines up to here",
                                         column_.holds_booleans() ? "booleans" : "integers")
                           : fmt::format("no line up to here has it, and {} cannot be missing", one_value()));
  }
  if (!dimensions_) dimensions_ = 0;
  rows_ = 0;
  return column_.take(shape_);
}

RAYTRAIN_INLINE void JsonColumn::add_array(JsonCursor& json, std::size_t depth) {
  if (dimensions_ && depth >= *dimensions_) refuse(json.what(), "a value has more arrays around it than others");
  shape_.resize(std::max(shape_.size(), depth + 1));
  std::size_t count = 0;
  json.array([&] {
    json.peek() == '[' ? add_array(json, depth + 1) : add_one(json, depth + 1);
    ++count;
  });
  if (count == 0) refuse(json.what(), "an array is empty, and no row can be");
  if (shape_[depth] == 0) shape_[depth] = count;
  if (shape_[depth] != count) {
    refuse(json.what(), fmt::format("an array has {} elements, and others have {}", count, shape_[depth]));
  }
}

RAYTRAIN_INLINE void JsonColumn::add_one(JsonCursor& json, std::size_t depth) {
  switch (json.peek()) {
    case '{': refuse(json.what(), "an object is within the line's object");
    case '"': return add_text(json, json.text(), depth);
    case 't': json.word("true"); return add_number(json, "1", Kind::boolean, depth);
    case 'f': json.word("false"); return add_number(json, "0", Kind::boolean, depth);
    case 'n': json.word("null"); return add_number(json, "nan", Kind::none, depth);
    default: return add_number(json, json.number(), Kind::number, depth);
  }
}

RAYTRAIN_INLINE void JsonColumn::add_number(JsonCursor const& json, std::string_view text, Kind kind,
                                            std::size_t depth) {
  if (column_.is_text() && kind_ == Kind::none) {  // as it was asked for
    if (kind == Kind::boolean) text = text == "1" ? "true" : "false";
    return add_text(json, text, depth);
  }
  check_depth(json, depth);
  if (kind_ == Kind::none) kind_ = kind;
  if (kind != Kind::none && kind != kind_) refuse(json.what(), "numbers, texts, or true and false are mixed");
  if (column_.add_number(text)) return;
  refuse(json.what(), fmt::format("'{}' is not a {} that it can hold", shown_field(text),
                                  column_.holds_booleans() ? "boolean" : "number"));
}

RAYTRAIN_INLINE void JsonColumn::add_text(JsonCursor const& json, std::string_view text, std::size_t depth) {
  auto const has_numbers = column_.is_decided() && !column_.is_text();
  if (has_numbers && (text == "NaN" || text == "Infinity" || text == "-Infinity")) {
    return add_number(json, text, Kind::none, depth);
  }
  if (depth > 0) refuse(json.what(), fmt::format("'{}' is a text in an array", shown_field(text)));
  check_depth(json, depth);
  if (!column_.is_decided()) kind_ = Kind::text;
  if (!column_.add_text(text))
    refuse(json.what(), fmt::format("'{}' is a text, and others are not", shown_field(text)));
}

RAYTRAIN_INLINE void JsonColumn::check_depth(JsonCursor const& json, std::size_t depth) {
  if (!dimensions_) dimensions_ = depth;
  if (*dimensions_ != depth) refuse(json.what(), "a value has more or fewer arrays around it than others");
}

RAYTRAIN_INLINE void JsonColumn::refuse(std::string_view what, std::string const& problem) const {
  throw Error{Errc::invalid_data, fmt::format("reading {}", what),
              fmt::format("column '{}': {}", shown_field(name()), problem),
              "make its values alike and flat, give it another of JsonLinesOptions::types, or leave it out by "
              "JsonLinesOptions::columns"};
}

RAYTRAIN_INLINE JsonTable::JsonTable(JsonLinesOptions const& options) : options_{options} {
  for (auto const& name : options.columns) {
    if (!kept_.insert(name).second) refuse_twice("JsonLinesOptions::columns", name);
  }
  for (auto const& [name, type] : options.types) {
    if (is_kept(name)) continue;
    throw Error{Errc::invalid_config, "JsonLinesOptions::types",
                fmt::format("names '{}', which JsonLinesOptions::columns leaves out", name),
                "name it there, too, or leave out its type"};
  }
}

RAYTRAIN_INLINE void JsonTable::begin_file(std::string const& name) { begin(fmt::format("JSON file '{}'", name)); }

RAYTRAIN_INLINE void JsonTable::begin(std::string_view what) {
  what_ = what;
  name_bytes_ = what_.size();
}

RAYTRAIN_INLINE void JsonTable::add_line(std::string_view line, std::uint64_t number) {
  missing_.add_bytes(line.size() + 1);
  if (!is_row(line)) return;
  what_.resize(name_bytes_);
  fmt::format_to(std::back_inserter(what_), ", line {}", number);
  JsonCursor json{line, what_};
  next_ = 0;
  std::size_t present = 0;
  json.object([&](std::string_view name) {
    auto* const column = column_of(json, name);
    if (column == nullptr) return json.skip();
    if (column->rows() > rows_) json.refuse(fmt::format("the name '{}' comes twice", shown_field(column->name())));
    column->add(json, missing_);
    ++present;
  });
  json.end();
  ++rows_;
  if (present == columns_.size()) return;
  for (auto& column : columns_) {
    if (column.rows() < rows_) column.add_missing(what_, 1, missing_);
  }
}

RAYTRAIN_INLINE auto JsonTable::is_settled() const -> bool {
  auto const has_come = [&](std::string_view name) { return numbers_.contains(name); };
  return !columns_.empty() && std::ranges::all_of(columns_, &JsonColumn::is_settled) &&
         std::ranges::all_of(kept_, has_come) && std::ranges::all_of(options_.types | std::views::keys, has_come);
}

RAYTRAIN_INLINE auto JsonTable::without_rows() const -> JsonTable {
  JsonTable table{options_};
  table.what_ = what_;
  table.name_bytes_ = name_bytes_;
  for (auto const& column : columns_) table.columns_.push_back(column.without_rows());
  table.numbers_ = numbers_;
  table.has_all_names_ = true;
  constexpr std::uint64_t always = std::uint64_t{1} << 22U;  // since each of many pieces may have so many
  table.missing_ = MissingValues{always};
  return table;
}

RAYTRAIN_INLINE auto JsonTable::takes(JsonTable const& part) const -> bool {
  auto missing = missing_;
  return part.columns_.size() == columns_.size() && missing.add(part.missing_);
}

RAYTRAIN_INLINE void JsonTable::add_rows(JsonTable const& part, std::size_t first, std::size_t count) {
  for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i].add_rows(part.columns_[i], first, count);
  missing_.add(part.missing_.share(count, part.rows_));
  what_ = part.what_;
  rows_ += count;
}

RAYTRAIN_INLINE auto JsonTable::take() -> Dataset {
  if (rows_ == 0) throw Error{Errc::invalid_data, "reading " + what_, "there are no rows", "look at what it holds"};
  if (order_.empty()) choose_columns();
  has_all_names_ = true;
  rows_ = 0;
  missing_ = {};  // the limit is a block's, as memory is
  std::vector<Column> columns;
  for (auto const at : order_) columns.push_back(columns_[at].take(what_));
  return Dataset::from_columns(std::move(columns));
}

RAYTRAIN_INLINE void JsonTable::finish() const {
  if (rows_ == 0 && order_.empty())
    throw Error{Errc::invalid_data, "reading " + what_, "there are no rows", "look at what it holds"};
  for (auto const& [name, type] : options_.types) {
    auto const place = numbers_.find(name);
    if (place == numbers_.end() || !columns_[place->second].has_come()) refuse_name("types", name);
  }
}

RAYTRAIN_INLINE void JsonTable::choose_columns() {
  for (auto const& [name, type] : options_.types) {
    if (numbers_.contains(name)) continue;
    add_column(name);  // it may come in a later block
    columns_.back().add_missing(what_, rows_, missing_);
  }
  for (auto const& name : options_.columns) {
    auto const place = numbers_.find(name);
    if (place == numbers_.end()) refuse_name("columns", name);
    order_.push_back(place->second);
  }
  for (std::size_t i = 0; options_.columns.empty() && i < columns_.size(); ++i) order_.push_back(i);
  if (order_.empty())
    throw Error{Errc::invalid_data, "reading " + what_, "there are no columns", "look at what it holds"};
}

RAYTRAIN_INLINE auto JsonTable::column_of(JsonCursor const& json, std::string_view name) -> JsonColumn* {
  if (next_ < columns_.size() && columns_[next_].name() == name) return &columns_[next_++];
  auto place = numbers_.find(name);
  if (place == numbers_.end()) {
    if (name.empty()) json.refuse("a name is empty");
    if (!is_kept(name)) return nullptr;
    constexpr std::size_t most = std::size_t{1} << 20U;  // so that no short text takes all memory
    if (columns_.size() == most) {
      throw Error{Errc::invalid_data, fmt::format("reading {}", json.what()),
                  fmt::format("more than {} names come", most),
                  "keep those that you need by JsonLinesOptions::columns"};
    }
    if (has_all_names_) {
      throw Error{Errc::invalid_data, fmt::format("reading {}", json.what()),
                  fmt::format("the name '{}' comes here first, behind the first block", shown_field(name)),
                  "give it one of JsonLinesOptions::types, or leave it out by JsonLinesOptions::columns"};
    }
    add_column(name);
    columns_.back().add_missing(json.what(), rows_, missing_);
    place = numbers_.find(name);
  }
  next_ = place->second + 1;
  return &columns_[place->second];
}

RAYTRAIN_INLINE void JsonTable::add_column(std::string_view name) {
  auto const type = options_.types.find(name);
  numbers_.emplace(name, columns_.size());
  columns_.emplace_back(std::string{name}, type == options_.types.end() ? std::nullopt : std::optional{type->second});
}

RAYTRAIN_INLINE void JsonTable::refuse_name(char const* field, std::string const& name) const {
  std::vector<std::string_view> names;
  for (auto const& column : columns_) {
    if (column.has_come()) names.emplace_back(column.name());
  }
  throw Error{
      Errc::not_found, "reading " + what_,
      fmt::format("JsonLinesOptions::{} names '{}', and the lines have {}", field, name, fmt::join(names, ", ")),
      "name one of them; of one that comes behind the first block, give the type, too"};
}

}  // namespace raytrain::detail
