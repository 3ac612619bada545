// SPDX-License-Identifier: Apache-2.0
#pragma once

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

#include <fmt/format.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/content_digest.hpp>
#include <raytrain/data/detail/gather_rows.hpp>
#include <raytrain/data/detail/permutation_cache.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain {

/// Columns of equally many rows. A copy costs one reference count; the memory is shared and never changes.
///
/// Threads: every function from any thread.
class Dataset {
 public:
  /// No columns, no rows.
  Dataset() : table_{std::make_shared<Table const>()} {}

  /// `Dataset::from_columns({{"image", std::move(pixels), {28, 28}}, {"label", std::move(labels)}})`.
  ///
  /// Errors: `invalid_data` when there is no column, two have one name, or their numbers of rows differ.
  [[nodiscard]] static auto from_columns(std::vector<Column> columns) -> Dataset {
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
    return Dataset{std::move(columns)};
  }

  [[nodiscard]] auto rows() const noexcept -> std::size_t {
    return table_->columns.empty() ? 0 : table_->columns.front().rows();
  }

  /// Lives as long as any copy of this dataset.
  [[nodiscard]] auto columns() const noexcept -> std::span<Column const> { return table_->columns; }

  [[nodiscard]] auto column_names() const -> std::vector<std::string> {
    std::vector<std::string> names;
    for (auto const& column : table_->columns) names.push_back(column.name());
    return names;
  }

  /// Errors: `not_found` when there is no column of that name, listing those that there are.
  [[nodiscard]] auto column(std::string_view name) const -> Column const& { return find_column(columns(), name); }

  /// The first `count` rows, or all if there are fewer.
  [[nodiscard]] auto head(std::size_t count) const -> Dataset { return slice(0, std::min(count, rows())); }

  /// The rows before `row`, and those from `row` on.
  ///
  /// Errors: `invalid_call` when there are fewer rows.
  [[nodiscard]] auto split_at(std::size_t row) const -> std::pair<Dataset, Dataset> {
    if (row > rows()) {
      throw Error{Errc::invalid_call, fmt::format("Dataset::split_at({})", row),
                  fmt::format("the dataset has only {} rows", rows()), "split at one of them"};
    }
    return {slice(0, row), slice(row, rows())};
  }

  /// A copy of these rows, in this order; a row may come several times.
  ///
  /// Errors: `invalid_call` for a row that is not there.
  [[nodiscard]] auto select(std::span<std::uint64_t const> rows) const -> Dataset {
    auto const outside = std::ranges::find_if(rows, [&](std::uint64_t row) { return row >= this->rows(); });
    if (outside != rows.end()) {
      throw Error{Errc::invalid_call, "Dataset::select",
                  fmt::format("there is no row {}: the dataset has {}", *outside, this->rows()), "count rows from 0"};
    }
    std::vector<Column> selected;
    for (auto const& column : table_->columns) {
      std::shared_ptr<std::byte[]> const data =
          std::make_unique_for_overwrite<std::byte[]>(rows.size() * column.row_bytes());
      detail::gather_rows(column.bytes().data(), column.row_bytes(), rows, data.get());
      selected.emplace_back(ColumnFormat{column.name(), column.type(), column.row_shape()},
                            std::shared_ptr<std::byte const>{data, data.get()}, rows.size());
    }
    return Dataset{std::move(selected)};
  }

  /// XXH3-128 of names, types, row shapes and values of the columns, in their order, as 32 hexadecimal digits. A
  /// resumed run knows by it whether it goes on with the same data.
  ///
  /// Every byte counts in a column of up to 256 MiB. Of a larger one 4,096 pieces of 64 KiB do, evenly spaced from the
  /// first byte to the last: a change between them goes unnoticed.
  /// Cost: 60 ms for 1 GB that counts, so at most 20 ms for a column; computed once for all copies of a dataset.
  [[nodiscard]] auto digest() const -> std::string const& { return table_->digest.get(columns()); }

  /// Every row once, in the order that belongs to `key`; computed once while somebody holds it.
  [[nodiscard]] auto shuffled_rows(ShuffleKey key) const -> std::shared_ptr<std::vector<std::uint64_t> const> {
    return table_->orders.get(key, rows());
  }

 private:
  struct Table {
    std::vector<Column> columns;
    detail::PermutationCache orders;
    detail::DigestCache digest;
  };

  explicit Dataset(std::vector<Column> columns) {
    auto table = std::make_shared<Table>();
    table->columns = std::move(columns);
    table_ = std::move(table);
  }

  [[nodiscard]] auto slice(std::size_t first, std::size_t last) const -> Dataset {
    std::vector<Column> parts;
    for (auto const& column : table_->columns) parts.push_back(column.slice(first, last));
    return Dataset{std::move(parts)};
  }

  std::shared_ptr<Table const> table_;
};

}  // namespace raytrain
