// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/text_codes.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto without_rows(Dataset const& dataset) -> Dataset {
  std::vector<Column> columns;
  for (auto const& column : dataset.columns()) columns.emplace_back(column.format(), nullptr, 0);
  return Dataset::from_columns(std::move(columns));
}

[[nodiscard]] RAYTRAIN_INLINE auto columns_by_name(Dataset const& dataset)
    -> std::unordered_map<std::string_view, Column const*> {
  std::unordered_map<std::string_view, Column const*> by_name;
  for (auto const& column : dataset.columns()) by_name.emplace(column.name(), &column);
  return by_name;
}

RAYTRAIN_INLINE auto column_differences(Dataset const& first, Dataset const& part) -> std::vector<std::string> {
  auto in_part = columns_by_name(part);
  std::vector<std::string> differences;
  for (auto const& column : first.columns()) {
    auto const found = in_part.find(column.name());
    if (found == in_part.end()) {
      differences.push_back(fmt::format("'{}' is missing", column.name()));
      continue;
    }
    auto const& same = *found->second;
    in_part.erase(found);
    if (same.type() != column.type() || same.row_shape() != column.row_shape() ||
        same.type_name() != column.type_name()) {
      differences.push_back(fmt::format("{} is here {}", column.describe(), same.describe()));
    }
  }
  for (auto const& column : part.columns()) {
    if (in_part.contains(column.name())) differences.push_back(fmt::format("'{}' is new", column.name()));
  }
  return differences;
}

RAYTRAIN_INLINE auto columns_as_in(Dataset const& first, Dataset const& part) -> std::vector<Column const*> {
  auto const in_part = columns_by_name(part);
  std::vector<Column const*> columns;
  for (auto const& column : first.columns()) columns.push_back(in_part.at(column.name()));
  return columns;
}

/// The rows of a column of all parts. Categories of all parts become those of each.
[[nodiscard]] RAYTRAIN_INLINE auto join_column(std::span<Column const* const> parts, std::size_t rows) -> Column {
  auto const& first = *parts.front();
  auto const& texts = first.format().categories;
  if (texts != nullptr &&
      !std::ranges::all_of(parts, [&](auto const* part) { return part->format().categories == texts; })) {
    TextCodes codes;
    for (auto const* const part : parts) codes.add(*part);
    return std::move(codes).take(first.name());
  }
  std::shared_ptr<std::byte[]> const data = std::make_unique_for_overwrite<std::byte[]>(rows * first.row_bytes());
  auto* to = data.get();
  for (auto const* const part : parts) {
    auto const bytes = part->bytes();
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return {first.format(), {data, data.get()}, rows};
}

RAYTRAIN_INLINE auto join_rows(std::span<Dataset const> parts, std::string const& attempted,
                               std::span<std::string const> names) -> Dataset {
  auto const name_of = [&](std::size_t part) { return names.empty() ? fmt::format("part {}", part + 1) : names[part]; };
  std::vector<Dataset const*> joined;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].rows() == 0 && parts[i].columns().empty()) continue;
    joined.push_back(&parts[i]);
    if (parts[i].rows() > std::numeric_limits<std::size_t>::max() - rows) {
      throw Error{Errc::invalid_data, attempted, "there would be more rows than can be counted", "join fewer"};
    }
    rows += parts[i].rows();
    auto const differences = column_differences(*joined.front(), parts[i]);
    if (differences.empty()) continue;
    throw Error{
        Errc::invalid_data, attempted,
        fmt::format("{} has other columns than {}: {}", name_of(i),
                    name_of(static_cast<std::size_t>(joined.front() - parts.data())), fmt::join(differences, ", ")),
        "give all of them the same names, types and row shapes"};
  }
  if (joined.empty()) return {};
  if (joined.size() == 1) return *joined.front();
  if (joined.front()->columns().empty()) return Dataset::of_rows(rows);
  std::vector<std::vector<Column const*>> of_parts;
  for (auto const* const part : joined) of_parts.push_back(columns_as_in(*joined.front(), *part));
  std::vector<Column> columns;
  std::vector<Column const*> same(joined.size());
  for (std::size_t i = 0; i < joined.front()->columns().size(); ++i) {
    for (std::size_t part = 0; part < joined.size(); ++part) same[part] = of_parts[part][i];
    columns.push_back(join_column(same, rows));
  }
  return Dataset::from_columns(std::move(columns));
}

}  // namespace raytrain::detail
