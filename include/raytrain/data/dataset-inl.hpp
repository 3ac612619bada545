// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/gather_rows.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

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

RAYTRAIN_INLINE auto Dataset::split_at(std::size_t row) const -> std::pair<Dataset, Dataset> {
  if (row > rows()) {
    throw Error{Errc::invalid_call, fmt::format("Dataset::split_at({})", row),
                fmt::format("the dataset has only {} rows", rows()), "split at one of them"};
  }
  return {slice(0, row), slice(row, rows())};
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
    selected.emplace_back(ColumnFormat{column.name(), column.type(), column.row_shape()},
                          std::shared_ptr<std::byte const>{data, data.get()}, rows.size());
  }
  return {std::move(selected), rows.size()};
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
