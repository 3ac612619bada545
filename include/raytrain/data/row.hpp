// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// One row of a dataset. Owns nothing: it is good for as long as the dataset.
///
/// Threads: every function from any thread.
class Row {
 public:
  /// `index` is below `dataset.rows()`.
  Row(Dataset const& dataset, std::size_t index) noexcept : columns_{dataset.columns()}, index_{index} {}

  /// Counted from 0, in the dataset.
  [[nodiscard]] auto index() const noexcept -> std::size_t { return index_; }

  /// The row's one value in that column: `row.get<float>("age")`.
  ///
  /// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` when it holds
  ///         another type, or more than one value a row.
  template <Element T>
  [[nodiscard]] auto get(std::string_view column) const -> T {
    auto const& source = find_column(columns_, column);
    auto const values = source.as<T>();
    source.check_one_value_a_row("Row::get");
    return values[index_];
  }

  /// The row's text in that column, or none where it is missing.
  ///
  /// Errors: `not_found` as of `get`; `invalid_data` when the column holds numbers.
  [[nodiscard]] auto text(std::string_view column) const -> std::optional<std::string_view> {
    return find_column(columns_, column).text(index_);
  }

  /// All of the row's values in that column, as the pixels of an image.
  ///
  /// Errors: as of `get`, but for any number of values.
  template <Element T>
  [[nodiscard]] auto values(std::string_view column) const -> std::span<T const> {
    auto const& source = find_column(columns_, column);
    return source.as<T>().subspan(index_ * source.row_values(), source.row_values());
  }

 private:
  std::span<Column const> columns_;
  std::size_t index_;
};

/// The rows of a dataset in their order, a forward range of `Row`; made by `rows`. Keeps them alive: a `Row` is good
/// for as long as this range.
///
/// Threads: every function from any thread.
class RowRange {
 public:
  class Iterator {
   public:
    using value_type = Row;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(Dataset const* dataset, std::size_t index) noexcept : dataset_{dataset}, index_{index} {}

    [[nodiscard]] auto operator*() const noexcept -> Row { return {*dataset_, index_}; }
    auto operator++() noexcept -> Iterator& {
      ++index_;
      return *this;
    }
    auto operator++(int) noexcept -> Iterator { return std::exchange(*this, Iterator{dataset_, index_ + 1}); }
    friend auto operator==(Iterator const& left, Iterator const& right) noexcept -> bool {
      return left.index_ == right.index_;
    }

   private:
    Dataset const* dataset_ = nullptr;
    std::size_t index_ = 0;
  };

  explicit RowRange(Dataset dataset) noexcept : dataset_{std::move(dataset)} {}

  [[nodiscard]] auto size() const noexcept -> std::size_t { return dataset_.rows(); }
  [[nodiscard]] auto begin() const noexcept -> Iterator { return {&dataset_, 0}; }
  [[nodiscard]] auto end() const noexcept -> Iterator { return {&dataset_, dataset_.rows()}; }

 private:
  Dataset dataset_;
};

/// One after the other: `for (auto const& row : rows(people)) total += row.get<float>("age");`.
///
/// Cost: each `get` looks the column up by its name; what computes with many rows takes `Column::as`.
[[nodiscard]] inline auto rows(Dataset dataset) -> RowRange { return RowRange{std::move(dataset)}; }

}  // namespace raytrain
