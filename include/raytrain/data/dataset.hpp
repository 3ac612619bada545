// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/content_digest.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/shuffle_key.hpp>

namespace raytrain {

/// Columns of equally many rows. A copy costs one reference count; the memory is shared and never changes.
///
/// Threads: every function from any thread.
class Dataset {
 public:
  /// No columns, no rows.
  Dataset();

  /// `Dataset::from_columns({{"image", std::move(pixels), {28, 28}}, {"label", std::move(labels)}})`.
  ///
  /// Errors: `invalid_data` when there is no column, two have one name, or their numbers of rows differ.
  [[nodiscard]] static auto from_columns(std::vector<Column> columns) -> Dataset;

  /// So many rows without a column, of which a `DatasetShard` tells the numbers: those of data that lies elsewhere.
  [[nodiscard]] static auto of_rows(std::size_t rows) -> Dataset;

  [[nodiscard]] auto rows() const noexcept -> std::size_t { return table_->rows; }

  /// Lives as long as any copy of this dataset.
  [[nodiscard]] auto columns() const noexcept -> std::span<Column const> { return table_->columns; }

  [[nodiscard]] auto column_names() const -> std::vector<std::string>;

  /// Errors: `not_found` when there is no column of that name, listing those that there are.
  [[nodiscard]] auto column(std::string_view name) const -> Column const& { return find_column(columns(), name); }

  /// These columns alone, in this order.
  ///
  /// Errors: `not_found` as of `column`; `invalid_call` for none, and for one that is named twice.
  [[nodiscard]] auto select_columns(std::vector<std::string> const& names) const -> Dataset;

  /// All columns but these.
  ///
  /// Errors: `not_found` as of `column`; `invalid_call` where none would be left.
  [[nodiscard]] auto drop_columns(std::vector<std::string> const& names) const -> Dataset;

  /// `rename_columns({{"old", "new"}})`, all at once, so that two columns can change their names.
  ///
  /// Errors: `not_found` as of `column`; `invalid_call` where two columns would have one name; `invalid_data` for a
  ///         name that is empty.
  [[nodiscard]] auto rename_columns(std::map<std::string, std::string> const& names) const -> Dataset;

  /// With one more, behind the others.
  ///
  /// Errors: `invalid_call` when there is a column of that name, or the column has another number of rows.
  [[nodiscard]] auto add_column(Column column) const -> Dataset;

  /// With this one in the place of the column of its name, or behind the others where there is none.
  ///
  /// Errors: `invalid_call` when it has another number of rows.
  [[nodiscard]] auto with_column(Column column) const -> Dataset;

  /// The first `count` rows, or all if there are fewer.
  [[nodiscard]] auto head(std::size_t count) const -> Dataset { return slice(0, std::min(count, rows())); }

  /// The rows before `row`, and those from `row` on.
  ///
  /// Errors: `invalid_call` when there are fewer rows.
  [[nodiscard]] auto split_at(std::size_t row) const -> std::pair<Dataset, Dataset>;

  /// The rows before the first of these, those from each up to the next one, and those from the last one on.
  ///
  /// Errors: `invalid_call` for one that is below the one before it, or where there are fewer rows.
  [[nodiscard]] auto split_at_indices(std::vector<std::size_t> const& rows) const -> std::vector<Dataset>;

  /// A copy of these rows, in this order; a row may come several times.
  ///
  /// Errors: `invalid_call` for a row that is not there.
  [[nodiscard]] auto select(std::span<std::uint64_t const> rows) const -> Dataset;

  /// A copy of these rows, followed by those of `other`, which has the same columns in any order. `Dataset{}` has
  /// nothing to add.
  ///
  /// Errors: `invalid_data` when names, types or row shapes of the columns are others, listing what differs. Booleans
  ///         are of another type than numbers of uint8: `Column::booleans_as_numbers` makes them alike.
  [[nodiscard]] auto union_with(Dataset const& other) const -> Dataset;

  /// A copy of the rows, so many times one after the other.
  ///
  /// Errors: `invalid_call` for 0 times, and for more rows than can be counted.
  [[nodiscard]] auto repeat(std::size_t times) const -> Dataset;

  /// A copy of the rows in the order of `shuffled_rows({.seed = seed})`: the same for the same seed, everywhere.
  [[nodiscard]] auto random_shuffle(std::uint64_t seed) const -> Dataset;

  /// XXH3-128 of names, types, row shapes and values of the columns, in their order, as 32 hexadecimal digits. A
  /// resumed run knows by it whether it goes on with the same data.
  ///
  /// Every byte counts in a column of up to 256 MiB. Of a larger one 4,096 pieces of 64 KiB do, evenly spaced from the
  /// first byte to the last: a change between them goes unnoticed.
  /// Cost: 60 ms for 1 GB that counts, so at most 20 ms for a column; computed once for all copies of a dataset.
  [[nodiscard]] auto digest() const -> std::string const& { return table_->digest.get(columns()); }

  /// Every row once, in the order that belongs to `key`; computed once while somebody holds it.
  [[nodiscard]] auto shuffled_rows(ShuffleKey key) const -> std::shared_ptr<std::vector<std::uint64_t> const>;

 private:
  struct Table {
    std::vector<Column> columns;
    std::size_t rows = 0;
    detail::PermutationCache orders;
    detail::DigestCache digest;
  };

  Dataset(std::vector<Column> columns, std::size_t rows);

  [[nodiscard]] auto slice(std::size_t first, std::size_t last) const -> Dataset;

  [[nodiscard]] auto put_column(Column column, char const* function) const -> Dataset;

  std::shared_ptr<Table const> table_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/dataset-inl.hpp>
#endif
