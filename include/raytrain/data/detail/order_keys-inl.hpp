// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/order_keys.hpp>

namespace raytrain::detail {

/// The sign of an integer, or of the bits of a number that is none.
inline constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63U;

template <std::unsigned_integral T>
[[nodiscard]] auto order_key(T value, bool descending) noexcept -> std::uint64_t {
  return descending ? ~std::uint64_t{value} : std::uint64_t{value};
}

template <std::signed_integral T>
[[nodiscard]] auto order_key(T value, bool descending) noexcept -> std::uint64_t {
  return order_key(static_cast<std::uint64_t>(std::int64_t{value}) ^ sign_bit, descending);
}

/// The bits of positive numbers ascend with them, and those of negative ones descend.
[[nodiscard]] inline auto order_key(double value, bool descending) noexcept -> std::uint64_t {
  if (std::isnan(value)) return std::numeric_limits<std::uint64_t>::max();
  auto const bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
  return order_key(bits & sign_bit ? ~bits : bits | sign_bit, descending);
}

RAYTRAIN_INLINE auto order_keys(Column const& column, bool descending) -> std::vector<std::uint64_t> {
  std::vector<std::uint64_t> keys(column.rows());
  if (column.is_text()) {
    std::ranges::transform(column.as<std::int32_t>(), keys.begin(), [&](std::int32_t code) {
      return code < 0 ? std::numeric_limits<std::uint64_t>::max() : order_key(code, descending);
    });
    return keys;
  }
  column.visit([&]<Element T>(std::span<T const> values) {
    std::ranges::transform(values, keys.begin(), [&](T value) {
      if constexpr (std::integral<T>) {
        return order_key(value, descending);
      } else {
        return order_key(as_double(value), descending);
      }
    });
  });
  return keys;
}

RAYTRAIN_INLINE auto order_keys(std::span<Column const> columns, bool descending) -> std::vector<std::uint64_t> {
  auto keys = order_keys(columns.front(), descending);
  for (auto const& column : columns.subspan(1)) {
    auto const next = order_keys(column, descending);
    std::vector<std::uint64_t> rows(keys.size());
    std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    auto const pair_of = [&](std::uint64_t row) { return std::pair{keys[row], next[row]}; };
    std::ranges::sort(rows, {}, pair_of);
    std::vector<std::uint64_t> ranks(keys.size());
    for (std::size_t at = 1; at < rows.size(); ++at)
      ranks[rows[at]] = ranks[rows[at - 1]] + (pair_of(rows[at]) != pair_of(rows[at - 1]) ? 1 : 0);
    keys = std::move(ranks);
  }
  return keys;
}

RAYTRAIN_INLINE auto key_columns(Dataset const& dataset, std::vector<std::string> const& names,
                                 std::string const& attempted) -> std::vector<Column> {
  if (names.empty()) throw Error{Errc::invalid_call, attempted, "got no column", "name at least one"};
  std::vector<Column> columns;
  for (auto const& name : names) {
    if (std::ranges::find(columns, name, &Column::name) != columns.end()) {
      throw Error{Errc::invalid_call, attempted, "column '" + name + "' is named twice", "name each once"};
    }
    columns.push_back(dataset.column(name));
    columns.back().check_one_value_a_row(attempted);
  }
  return columns;
}

RAYTRAIN_INLINE auto rows_by_key(std::vector<std::uint64_t> const& keys) -> std::vector<std::uint64_t> {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order(keys.size());
  for (std::size_t row = 0; row < keys.size(); ++row) order[row] = {keys[row], row};
  std::ranges::sort(order);
  std::vector<std::uint64_t> rows(keys.size());
  std::ranges::transform(order, rows.begin(), [](auto const& entry) { return entry.second; });
  return rows;
}

RAYTRAIN_INLINE auto RowGroups::of_rows() const -> std::vector<std::size_t> {
  std::vector<std::size_t> groups(rows.size());
  for (std::size_t group = 0; group < size(); ++group) {
    for (auto at = begins[group]; at < begins[group + 1]; ++at) groups[rows[at]] = group;
  }
  return groups;
}

RAYTRAIN_INLINE auto row_groups(std::span<Column const> columns) -> RowGroups {
  auto const keys = order_keys(columns);
  RowGroups groups{.rows = rows_by_key(keys), .begins = {}};
  for (std::size_t at = 0; at < groups.rows.size(); ++at) {
    if (at == 0 || keys[groups.rows[at]] != keys[groups.rows[at - 1]]) groups.begins.push_back(at);
  }
  groups.begins.push_back(groups.rows.size());
  return groups;
}

}  // namespace raytrain::detail
