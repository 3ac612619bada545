// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::detail {

/// Labels as boosting takes them. `where` and `owner`: what an error names.
///
/// Errors: `invalid_data` for a label that is NaN or infinite.
inline void check_label_values(std::span<float const> labels, std::string_view where, std::string_view owner) {
  auto const bad = std::ranges::find_if(labels, [](float label) { return !std::isfinite(label); });
  if (bad == labels.end()) return;
  throw Error{Errc::invalid_data, std::string{owner},
              fmt::format("row {} of {} is {}", bad - labels.begin(), where, *bad), "leave out rows without a label"};
}

/// The same for weights.
///
/// Errors: `invalid_data` for a weight that is negative, NaN or infinite.
inline void check_weight_values(std::span<float const> weights, std::string_view where, std::string_view owner) {
  auto const bad = std::ranges::find_if(weights, [](float weight) { return !(weight >= 0) || std::isinf(weight); });
  if (bad == weights.end()) return;
  throw Error{Errc::invalid_data, std::string{owner},
              fmt::format("row {} of {} is {}", bad - weights.begin(), where, *bad),
              "write 0 for rows that do not count"};
}

/// Errors: `invalid_data` for a column that is not one number a row. `role`: what it is to the boosting.
inline void check_one_number_a_row(Column const& column, std::string_view role, std::string_view owner) {
  if (column.row_values() == 1) return;
  throw Error{Errc::invalid_data, std::string{owner},
              fmt::format("the {} column {} is not one number a row", role, column.describe()), "name another column"};
}

/// How many rows each group of a column has, one after the other.
///
/// Errors: `invalid_data` for a column that is not one number or text a row, for a row without either, and for rows of
///         a group that lie apart.
[[nodiscard]] inline auto group_sizes(Column const& column, std::string_view owner) -> std::vector<std::uint32_t> {
  check_one_number_a_row(column, "group", owner);
  std::vector<std::uint32_t> sizes;
  with_element_type(column.type(), [&]<Element T>(T*) {
    using Id = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
    auto const values = column.template as<T>();
    std::vector<Id> ids(values.size());
    std::ranges::transform(values, ids.begin(), [](T value) { return static_cast<Id>(value); });
    auto const none = std::ranges::find_if(ids, [&](Id id) { return column.is_text() ? id < Id{} : id != id; });
    if (none != ids.end()) {
      throw Error{Errc::invalid_data, std::string{owner},
                  fmt::format("row {} of the group column '{}' is {}", none - ids.begin(), column.name(),
                              column.is_text() ? "missing" : "nan"),
                  "leave out rows without a group"};
    }
    std::vector<Id> seen;
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (row == 0 || !(ids[row] == ids[row - 1])) {
        seen.push_back(ids[row]);
        sizes.push_back(0);
      }
      ++sizes.back();
    }
    std::ranges::sort(seen);
    if (std::ranges::adjacent_find(seen) != seen.end()) {
      throw Error{Errc::invalid_data, std::string{owner},
                  fmt::format("rows of one group in the column '{}' do not lie together", column.name()),
                  "sort the rows by group"};
    }
  });
  return sizes;
}

/// A dataset in the terms of a library that boosts trees: features side by side, a label, a weight and a group.
class FeatureTable {
 public:
  /// What the columns are; empty names: none, and no features: all other columns.
  struct Roles {
    std::string label;
    std::string weight;
    std::string group;
    std::vector<std::string> features;
    std::vector<std::string> categorical;
  };

  /// `owner`: the class that errors name.
  ///
  /// Errors: `not_found` for a column that is not there, listing those that are; `invalid_data` for no rows or
  /// features, and for a feature of text.
  FeatureTable(Dataset const& data, Roles roles, std::string_view owner)
      : data_{data}, roles_{std::move(roles)}, owner_{owner} {
    if (data.rows() == 0) refuse("there are no rows", "give at least one; where a worker has none, use fewer workers");
    if (roles_.features.empty()) {
      for (auto const& column : data.columns()) {
        auto const& name = column.name();
        if (name != roles_.label && name != roles_.weight && name != roles_.group) columns_.push_back(column);
      }
    } else {
      for (auto const& name : roles_.features) columns_.push_back(data.column(name));
    }
    if (columns_.empty()) {
      refuse("the dataset has no column but label, weight and group", "give it at least one feature");
    }
    for (auto const& column : columns_) column.check_holds_numbers(owner_);
    for (auto const& name : roles_.categorical) (void)find_column(columns_, name);
    name_features();
  }

  [[nodiscard]] auto rows() const noexcept -> std::size_t { return data_.rows(); }
  /// The columns of the features.
  [[nodiscard]] auto columns() const noexcept -> std::span<Column const> { return columns_; }
  /// One for each feature: a column that is no single number a row has several.
  [[nodiscard]] auto names() const noexcept -> std::vector<std::string> const& { return names_; }
  /// Whether each feature's values are categories.
  [[nodiscard]] auto is_categorical() const noexcept -> std::vector<bool> const& { return is_categorical_; }

  /// All features of a row side by side, as XGBoost and LightGBM read them fastest.
  template <class T>
  [[nodiscard]] auto row_major() const -> std::vector<T> {
    return row_major<T>(0, rows());
  }

  /// As above, for `rows` rows from row `from` on.
  template <class T>
  [[nodiscard]] auto row_major(std::size_t from, std::size_t rows) const -> std::vector<T> {
    auto const width = names_.size();
    std::vector<T> table(rows * width);
    std::size_t first = 0;
    for (auto const& column : columns_) {
      with_element_type(column.type(), [&]<Element E>(E*) {
        using Exact = std::conditional_t<std::is_arithmetic_v<E>, E, float>;
        auto const count = column.row_values();
        auto const values = column.template as<E>().subspan(from * count);
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t i = 0; i < count; ++i)
            table[row * width + first + i] = static_cast<T>(static_cast<Exact>(values[row * count + i]));
        }
      });
      first += column.row_values();
    }
    return table;
  }

  /// Empty without a label.
  ///
  /// Errors: `invalid_data` for a column that is not one number a row, and for a label that is NaN or infinite.
  [[nodiscard]] auto labels() const -> std::vector<float> {
    if (roles_.label.empty()) return {};
    auto const& column = data_.column(roles_.label);
    auto labels = numbers(column, "label");
    check_label_values(labels, fmt::format("the label column '{}'", column.name()), owner_);
    return labels;
  }

  /// Empty without a weight.
  ///
  /// Errors: `invalid_data` for a column that is not one number a row, and for a weight that is negative or infinite.
  [[nodiscard]] auto weights() const -> std::vector<float> {
    if (roles_.weight.empty()) return {};
    auto const& column = data_.column(roles_.weight);
    auto weights = numbers(column, "weight");
    check_weight_values(weights, fmt::format("the weight column '{}'", column.name()), owner_);
    return weights;
  }

  /// How many rows each group has, one after the other; empty without a group.
  ///
  /// Errors: as `detail::group_sizes`.
  [[nodiscard]] auto group_sizes() const -> std::vector<std::uint32_t> {
    if (roles_.group.empty()) return {};
    return detail::group_sizes(data_.column(roles_.group), owner_);
  }

  /// A weight for each group.
  ///
  /// Errors: as `weights` and `group_sizes`; `invalid_data` for rows of one group with several weights.
  [[nodiscard]] auto group_weights() const -> std::vector<float> {
    std::vector<float> of_group;
    auto const of_row = weights();
    for (std::size_t row = 0; auto const size : group_sizes()) {
      auto const group = std::span{of_row}.subspan(row, size);
      auto const other = std::ranges::find_if(group, [&](float weight) { return weight != group.front(); });
      if (other != group.end()) {
        refuse(
            fmt::format("rows {} and {} are in one group of the column '{}', and their weights in '{}' are {} and {}",
                        row, row + static_cast<std::size_t>(other - group.begin()), roles_.group, roles_.weight,
                        group.front(), *other),
            "give all rows of a group the same weight");
      }
      of_group.push_back(group.front());
      row += size;
    }
    return of_group;
  }

 private:
  [[noreturn]] void refuse(std::string happened, std::string remedy) const {
    throw Error{Errc::invalid_data, owner_, std::move(happened), std::move(remedy)};
  }

  void name_features() {
    for (auto const& column : columns_) {
      auto const categorical = std::ranges::find(roles_.categorical, column.name()) != roles_.categorical.end();
      for (std::size_t i = 0; i < column.row_values(); ++i) {
        names_.push_back(column.row_shape().empty() ? column.name() : fmt::format("{}_{}", column.name(), i));
        is_categorical_.push_back(categorical);
      }
    }
  }

  /// A column of one number a row, as floats.
  [[nodiscard]] auto numbers(Column const& column, std::string_view role) const -> std::vector<float> {
    check_one_number_a_row(column, role, owner_);
    column.check_holds_numbers(owner_);
    std::vector<float> numbers(column.rows());
    with_element_type(column.type(), [&]<Element T>(T*) {
      std::ranges::transform(column.template as<T>(), numbers.begin(),
                             [](T value) { return static_cast<float>(value); });
    });
    return numbers;
  }

  Dataset data_;
  Roles roles_;
  std::string owner_;
  std::vector<Column> columns_;
  std::vector<std::string> names_;
  std::vector<bool> is_categorical_;
};

}  // namespace raytrain::detail
