// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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
  constexpr std::uint64_t always = std::uint64_t{1} << 26U;
  values_ += values;
  if (values_ <= always || values_ <= 16 * bytes_) return;
  throw Error{Errc::invalid_data, fmt::format("reading {}", what),
              fmt::format("{} values are missing up to here, more than 16 for each byte", values_),
              "keep fewer columns by JsonLinesOptions::columns"};
}

RAYTRAIN_INLINE void JsonColumn::add(JsonCursor& json, MissingValues& missing) {
  if (json.peek() == 'n') {
    json.word("null");
    return add_missing(json, 1, missing);
  }
  auto const is_first = !dimensions_;
  if (json.peek() == '[') {
    add_array(json, 0);
    if (is_first) {
      for (auto const extent : shape_) row_values_ *= extent;
      missing.add(rows_ * row_values_, json.what());
      if (!column_.prepend_missing(rows_ * row_values_)) refuse(json, "an integer is missing in the lines before");
    }
  } else {
    if (is_first && !column_.add_missing(rows_)) refuse(json, "an integer is missing in the lines before");
    add_one(json, 0);
  }
  ++rows_;
}

RAYTRAIN_INLINE void JsonColumn::add_missing(JsonCursor const& json, std::size_t rows, MissingValues& missing) {
  missing.add(rows * row_values_, json.what());
  rows_ += rows;
  // How many values these rows have, the first one tells that is there.
  if (dimensions_ && !column_.add_missing(rows * row_values_)) refuse(json, "an integer is missing");
}

RAYTRAIN_INLINE auto JsonColumn::take() -> Column {
  if (!dimensions_ && !column_.add_missing(rows_)) {
    throw Error{Errc::invalid_data, fmt::format("column '{}' as integers", name()), "no line has one",
                "leave it out of JsonLinesOptions::types"};
  }
  if (!dimensions_) dimensions_ = 0;
  rows_ = 0;
  return column_.take(shape_);
}

RAYTRAIN_INLINE void JsonColumn::add_array(JsonCursor& json, std::size_t depth) {
  if (dimensions_ && depth >= *dimensions_) refuse(json, "a value has more arrays around it than others");
  shape_.resize(std::max(shape_.size(), depth + 1));
  std::size_t count = 0;
  json.array([&] {
    json.peek() == '[' ? add_array(json, depth + 1) : add_one(json, depth + 1);
    ++count;
  });
  if (count == 0) refuse(json, "an array is empty, and no row can be");
  if (shape_[depth] == 0) shape_[depth] = count;
  if (shape_[depth] != count) {
    refuse(json, fmt::format("an array has {} elements, and others have {}", count, shape_[depth]));
  }
}

RAYTRAIN_INLINE void JsonColumn::add_one(JsonCursor& json, std::size_t depth) {
  switch (json.peek()) {
    case '{': refuse(json, "an object is within the line's object");
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
  if (kind != Kind::none && kind != kind_) refuse(json, "numbers, texts, or true and false are mixed");
  if (!column_.add_number(text)) refuse(json, fmt::format("'{}' is not a number that it can hold", shown_field(text)));
}

RAYTRAIN_INLINE void JsonColumn::add_text(JsonCursor const& json, std::string_view text, std::size_t depth) {
  auto const has_numbers = column_.is_decided() && !column_.is_text();
  if (has_numbers && (text == "NaN" || text == "Infinity" || text == "-Infinity")) {
    return add_number(json, text, Kind::none, depth);
  }
  if (depth > 0) refuse(json, fmt::format("'{}' is a text in an array", shown_field(text)));
  check_depth(json, depth);
  if (!column_.is_decided()) kind_ = Kind::text;
  if (!column_.add_text(text)) refuse(json, fmt::format("'{}' is a text, and others are not", shown_field(text)));
}

RAYTRAIN_INLINE void JsonColumn::check_depth(JsonCursor const& json, std::size_t depth) {
  if (!dimensions_) dimensions_ = depth;
  if (*dimensions_ != depth) refuse(json, "a value has more or fewer arrays around it than others");
}

RAYTRAIN_INLINE void JsonColumn::refuse(JsonCursor const& json, std::string const& problem) const {
  throw Error{Errc::invalid_data, fmt::format("reading {}", json.what()),
              fmt::format("column '{}': {}", shown_field(name()), problem),
              "make its values alike and flat, give it another of JsonLinesOptions::types, or leave it out by "
              "JsonLinesOptions::columns"};
}

RAYTRAIN_INLINE void JsonTable::begin_file(std::string const& name) {
  what_ = fmt::format("JSON file '{}'", name);
  file_name_bytes_ = what_.size();
}

RAYTRAIN_INLINE void JsonTable::add_line(std::string_view line, std::uint64_t number) {
  missing_.add_bytes(line.size() + 1);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  what_.resize(file_name_bytes_);
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
    if (column.rows() < rows_) column.add_missing(json, 1, missing_);
  }
}

RAYTRAIN_INLINE auto JsonTable::take() -> Dataset {
  auto const refuse = [&](char const* happened) {
    throw Error{Errc::invalid_data, "reading " + what_, happened, "look at the file"};
  };
  if (rows_ == 0) refuse("there are no rows");
  if (order_.empty()) choose_columns();
  if (order_.empty()) refuse("there are no columns");
  rows_ = 0;
  std::vector<Column> columns;
  for (auto const at : order_) columns.push_back(columns_[at].take());
  return Dataset::from_columns(std::move(columns));
}

RAYTRAIN_INLINE void JsonTable::choose_columns() {
  for (auto const& [name, type] : options_.types) (void)find("types", name);
  for (auto const& name : options_.columns) {
    auto const at = find("columns", name);
    if (std::ranges::find(order_, at) != order_.end()) refuse_twice("JsonLinesOptions::columns", name);
    order_.push_back(at);
  }
  for (std::size_t i = 0; options_.columns.empty() && i < columns_.size(); ++i) order_.push_back(i);
}

RAYTRAIN_INLINE auto JsonTable::column_of(JsonCursor const& json, std::string_view name) -> JsonColumn* {
  if (next_ < columns_.size() && columns_[next_].name() == name) return &columns_[next_++];
  auto place = numbers_.find(name);
  if (place == numbers_.end()) {
    if (name.empty()) json.refuse("a name is empty");
    if (!options_.columns.empty() && std::ranges::find(options_.columns, name) == options_.columns.end()) {
      return nullptr;
    }
    if (!order_.empty()) {
      throw Error{Errc::invalid_data, fmt::format("reading {}", json.what()),
                  fmt::format("the name '{}' comes here first, behind the first block", shown_field(name)),
                  "read larger blocks, or leave it out by JsonLinesOptions::columns"};
    }
    auto const type = options_.types.find(name);
    place = numbers_.emplace(name, columns_.size()).first;
    columns_.emplace_back(place->first, type == options_.types.end() ? std::nullopt : std::optional{type->second});
    columns_.back().add_missing(json, rows_, missing_);
  }
  next_ = place->second + 1;
  return &columns_[place->second];
}

RAYTRAIN_INLINE auto JsonTable::find(char const* field, std::string const& name) const -> std::size_t {
  if (auto const place = numbers_.find(name); place != numbers_.end()) return place->second;
  std::vector<std::string_view> names;
  for (auto const& column : columns_) names.emplace_back(column.name());
  throw Error{
      Errc::not_found, "reading " + what_,
      fmt::format("JsonLinesOptions::{} names '{}', and the lines have {}", field, name, fmt::join(names, ", ")),
      "name one of them"};
}

}  // namespace raytrain::detail
