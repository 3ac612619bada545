// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/fit_rows.hpp>

namespace raytrain::detail {

/// More different values are no categories.
inline constexpr std::size_t most_categories = std::size_t{1} << 20U;

/// Errors: `invalid_data` for more than that.
void check_categories(std::size_t categories, std::string const& column, std::string const& attempted);

/// Calls `work(text, count)` for each text that the rows have, in their order, as long as it returns true.
template <class Work>
void for_each_text(Column const& column, Work const& work) {
  std::vector<std::uint64_t> counts(column.categories().size());
  for (auto const code : column.as<std::int32_t>()) {
    if (code >= 0) ++counts[static_cast<std::size_t>(code)];
  }
  for (std::size_t code = 0; code < counts.size(); ++code) {
    if (counts[code] > 0 && !work(column.categories()[code], counts[code])) return;
  }
}

/// What the workers count, in ascending order, and how often, added up. More than may be categories do not travel.
///
/// Errors: as `check_categories`.
template <class Value>
[[nodiscard]] auto add_counts(FitRows const& rows, std::map<Value, std::uint64_t> const& mine,
                              std::string const& column, std::string const& attempted)
    -> std::pair<std::vector<Value>, std::vector<std::uint64_t>> {
  for (auto const of_worker : rows.all_gather(std::uint64_t{mine.size()})) {
    check_categories(static_cast<std::size_t>(of_worker), column, attempted);
  }
  std::map<Value, std::uint64_t> all;
  for (auto const& of_worker : rows.all_gather(mine)) {
    for (auto const& [value, count] : of_worker) all[value] += count;
  }
  check_categories(all.size(), column, attempted);
  std::pair<std::vector<Value>, std::vector<std::uint64_t>> added;
  for (auto const& [value, count] : all) {
    added.first.push_back(value);
    added.second.push_back(count);
  }
  return added;
}

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/added_counts-inl.hpp>
#endif
