// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/gather_rows.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain::detail {

/// For whoever looks up many of them.
[[nodiscard]] inline auto columns_by_name(std::span<Column const> columns)
    -> std::unordered_map<std::string_view, Column const*> {
  std::unordered_map<std::string_view, Column const*> by_name;
  for (auto const& column : columns) by_name.emplace(column.name(), &column);
  return by_name;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE Dataset::Dataset() : table_{std::make_shared<Table const>()} {}

RAYTRAIN_INLINE auto Dataset::from_columns(std::vector<Column> columns) -> Dataset {
  if (columns.empty()) {
    throw Error{Errc::invalid_data, "Dataset::from_columns", "got no column", "give at least one"};
  }
  std::set<std::string_view> names;
  for (auto const& column : columns) {
    if (!names.insert(column.name()).second) {
      throw Error{Errc::invalid_data, "Dataset::from_columns", "two columns are named '" + column.name() + "'",
                  "give each column its own name"};
    }
    if (column.rows() != columns.front().rows()) {
      throw Error{Errc::invalid_data, "Dataset::from_columns",
                  fmt::format("column '{}' has {} rows and column '{}' has {}", columns.front().name(),
                              columns.front().rows(), column.name(), column.rows()),
                  "give every column as many rows"};
    }
  }
  auto const rows = columns.front().rows();
  return {std::move(columns), rows};
}

RAYTRAIN_INLINE auto Dataset::of_rows(std::size_t rows) -> Dataset { return {{}, rows}; }

RAYTRAIN_INLINE auto Dataset::column_names() const -> std::vector<std::string> {
  std::vector<std::string> names;
  for (auto const& column : table_->columns) names.push_back(column.name());
  return names;
}

RAYTRAIN_INLINE auto Dataset::select_columns(std::vector<std::string> const& names) const -> Dataset {
  if (names.empty()) {
    throw Error{Errc::invalid_call, "Dataset::select_columns", "got no name", "name at least one column"};
  }
  auto const by_name = detail::columns_by_name(columns());
  std::unordered_set<std::string_view> seen;
  std::vector<Column> selected;
  for (auto const& name : names) {
    if (!seen.insert(name).second) {
      throw Error{Errc::invalid_call, "Dataset::select_columns", fmt::format("'{}' is named twice", name),
                  "name each column once"};
    }
    auto const found = by_name.find(name);
    selected.push_back(found == by_name.end() ? column(name) : *found->second);  // the former tells what there is
  }
  return {std::move(selected), rows()};
}

RAYTRAIN_INLINE auto Dataset::drop_columns(std::vector<std::string> const& names) const -> Dataset {
  std::unordered_set<std::string_view> dropped{names.begin(), names.end()};
  std::vector<Column> kept;
  for (auto const& column : columns()) {
    if (dropped.erase(column.name()) == 0) kept.push_back(column);
  }
  for (auto const& name : names) {
    if (dropped.contains(name)) (void)column(name);  // tells what there is
  }
  if (kept.empty() && !names.empty()) {
    throw Error{Errc::invalid_call, "Dataset::drop_columns", "no column would be left", "keep at least one"};
  }
  return {std::move(kept), rows()};
}

RAYTRAIN_INLINE auto Dataset::rename_columns(std::map<std::string, std::string> const& names) const -> Dataset {
  auto const by_name = detail::columns_by_name(columns());
  for (auto const& [old_name, new_name] : names) {
    if (!by_name.contains(old_name)) (void)column(old_name);  // tells what there is
  }
  std::set<std::string> taken;
  std::vector<Column> renamed;
  for (auto const& column : columns()) {
    auto const found = names.find(column.name());
    renamed.push_back(found == names.end() ? column : column.named(found->second));
    if (!taken.insert(renamed.back().name()).second) {
      throw Error{Errc::invalid_call, "Dataset::rename_columns",
                  fmt::format("two columns would be named '{}'", renamed.back().name()),
                  "give each column its own name"};
    }
  }
  return {std::move(renamed), rows()};
}

RAYTRAIN_INLINE auto Dataset::add_column(Column column) const -> Dataset {
  if (std::ranges::find(columns(), column.name(), &Column::name) != columns().end()) {
    throw Error{Errc::invalid_call, fmt::format("Dataset::add_column('{}')", column.name()),
                "there is a column of that name", "give it another name, or replace that one by with_column"};
  }
  return put_column(std::move(column), "add_column");
}

RAYTRAIN_INLINE auto Dataset::with_column(Column column) const -> Dataset {
  return put_column(std::move(column), "with_column");
}

RAYTRAIN_INLINE auto Dataset::put_column(Column column, char const* function) const -> Dataset {
  if (column.rows() != rows()) {
    throw Error{Errc::invalid_call, fmt::format("Dataset::{}('{}')", function, column.name()),
                fmt::format("it has {} rows, and the dataset has {}", column.rows(), rows()), "give it as many rows"};
  }
  std::vector<Column> all{columns().begin(), columns().end()};
  if (auto const found = std::ranges::find(all, column.name(), &Column::name); found != all.end()) {
    *found = std::move(column);
  } else {
    all.push_back(std::move(column));
  }
  return {std::move(all), rows()};
}

RAYTRAIN_INLINE auto Dataset::split_at(std::size_t row) const -> std::pair<Dataset, Dataset> {
  if (row > rows()) {
    throw Error{Errc::invalid_call, fmt::format("Dataset::split_at({})", row),
                fmt::format("the dataset has only {} rows", rows()), "split at one of them"};
  }
  return {slice(0, row), slice(row, rows())};
}

RAYTRAIN_INLINE auto Dataset::split_at_indices(std::vector<std::size_t> const& rows) const -> std::vector<Dataset> {
  std::vector<Dataset> parts;
  std::size_t first = 0;
  for (auto const last : rows) {
    if (last < first || last > this->rows()) {
      throw Error{Errc::invalid_call, fmt::format("Dataset::split_at_indices({{{}}})", fmt::join(rows, ", ")),
                  last < first ? fmt::format("{} follows {}", last, first)
                               : fmt::format("the dataset has only {} rows", this->rows()),
                  "name rows that it has, in ascending order"};
    }
    parts.push_back(slice(first, last));
    first = last;
  }
  parts.push_back(slice(first, this->rows()));
  return parts;
}

RAYTRAIN_INLINE auto Dataset::select(std::span<std::uint64_t const> rows) const -> Dataset {
  auto const outside = std::ranges::find_if(rows, [&](std::uint64_t row) { return row >= this->rows(); });
  if (outside != rows.end()) {
    throw Error{Errc::invalid_call, "Dataset::select",
                fmt::format("there is no row {}: the dataset has {}", *outside, this->rows()), "count rows from 0"};
  }
  std::vector<Column> selected;
  for (auto const& column : table_->columns) {
    std::shared_ptr<std::byte[]> const data =
        std::make_unique_for_overwrite<std::byte[]>(rows.size() * column.row_bytes());
    detail::gather_rows(column, rows, data.get());
    selected.emplace_back(column.format(), std::shared_ptr<std::byte const>{data, data.get()}, rows.size());
  }
  return {std::move(selected), rows.size()};
}

RAYTRAIN_INLINE auto Dataset::union_with(Dataset const& other) const -> Dataset {
  return detail::join_rows(std::array{*this, other}, "Dataset::union_with");
}

RAYTRAIN_INLINE auto Dataset::repeat(std::size_t times) const -> Dataset {
  auto const most_rows = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(std::uint64_t);
  if (times == 0 || rows() > most_rows / times) {
    throw Error{Errc::invalid_call, fmt::format("Dataset::repeat({})", times),
                times == 0 ? "leaves no rows" : fmt::format("so many times {} rows cannot be counted", rows()),
                times == 0 ? "repeat at least once, which is the rows as they are" : "repeat less often"};
  }
  if (columns().empty()) return of_rows(times * rows());
  std::vector<std::uint64_t> order(times * rows());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i % rows();
  return select(order);
}

RAYTRAIN_INLINE auto Dataset::random_shuffle(std::uint64_t seed) const -> Dataset {
  return select(*shuffled_rows({.seed = seed}));
}

RAYTRAIN_INLINE auto Dataset::shuffled_rows(ShuffleKey key) const -> std::shared_ptr<std::vector<std::uint64_t> const> {
  return table_->orders.get(key, rows());
}

RAYTRAIN_INLINE Dataset::Dataset(std::vector<Column> columns, std::size_t rows) {
  auto table = std::make_shared<Table>();
  table->columns = std::move(columns);
  table->rows = rows;
  table_ = std::move(table);
}

RAYTRAIN_INLINE auto Dataset::slice(std::size_t first, std::size_t last) const -> Dataset {
  std::vector<Column> parts;
  for (auto const& column : table_->columns) parts.push_back(column.slice(first, last));
  return {std::move(parts), last - first};
}

}  // namespace raytrain
