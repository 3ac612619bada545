// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/order_keys.hpp>
#include <raytrain/data/detail/permutation.hpp>
#include <raytrain/data/train_test_split.hpp>

namespace raytrain::detail {

/// How many rows of each class are held out, `total` in all: the whole part of each share, and one more of those whose
/// rest is largest; of equal ones, those that the seed picks.
[[nodiscard]] RAYTRAIN_INLINE auto held_out_of_classes(RowGroups const& classes, double test_fraction,
                                                       std::size_t total, SplitOptions const& options)
    -> std::vector<std::size_t> {
  std::vector<std::size_t> held_out(classes.size());
  std::vector<std::pair<double, std::size_t>> rests;  // negative, so that the largest is the first
  std::vector<std::uint64_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  if (options.shuffle) order = permutation({.seed = options.seed}, classes.size());
  for (auto const i : order) {
    auto const share = static_cast<double>(classes.rows_of(i)) * test_fraction;
    held_out[i] = static_cast<std::size_t>(share);
    rests.emplace_back(std::floor(share) - share, i);
  }
  std::ranges::stable_sort(rests, {}, &std::pair<double, std::size_t>::first);
  auto left = total - std::min(total, std::reduce(held_out.begin(), held_out.end()));
  for (std::size_t i = 0; i < rests.size() && left > 0; ++i, --left) ++held_out[rests[i].second];
  return held_out;
}

/// How many rows of each group are held out: all or none.
[[nodiscard]] RAYTRAIN_INLINE auto held_out_of_groups(RowGroups const& groups, std::size_t total,
                                                      SplitOptions const& options) -> std::vector<std::size_t> {
  std::vector<std::uint64_t> order(groups.size());
  if (options.shuffle) {
    order = permutation({.seed = options.seed}, groups.size());
  } else {  // those come first that have the last rows to begin
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    std::ranges::sort(order, std::ranges::greater{}, [&](auto group) { return groups.rows[groups.begins[group]]; });
  }
  std::vector<std::size_t> held_out(groups.size());
  std::size_t rows = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    auto const size = groups.rows_of(order[i]);
    if (i > 0 && (rows >= total || total - rows < size - std::min(size, total - rows))) break;
    held_out[order[i]] = size;
    rows += size;
  }
  return held_out;
}

/// Divides the rows in this order: of each group the last ones that are held out.
[[nodiscard]] RAYTRAIN_INLINE auto divide(Dataset const& dataset, std::vector<std::uint64_t> const& order,
                                          RowGroups const& groups, std::vector<std::size_t> const& held_out)
    -> std::pair<Dataset, Dataset> {
  std::vector<std::size_t> left(groups.size());  // for the training
  for (std::size_t i = 0; i < groups.size(); ++i) left[i] = groups.rows_of(i) - held_out[i];
  auto const group_of = groups.of_rows();
  std::vector<std::uint64_t> train;
  std::vector<std::uint64_t> test;
  for (auto const row : order) {
    auto& of_group = left[group_of[row]];
    (of_group > 0 ? train : test).push_back(row);
    if (of_group > 0) --of_group;
  }
  return {dataset.select(train), dataset.select(test)};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto train_test_split(Dataset const& dataset, double test_fraction, SplitOptions const& options)
    -> std::pair<Dataset, Dataset> {
  auto const attempted = fmt::format("train_test_split({})", test_fraction);
  if (!(test_fraction > 0 && test_fraction < 1)) {
    throw Error{Errc::invalid_call, attempted, "the fraction of rows for the test must be between 0 and 1",
                "write 0.2 for a fifth of them"};
  }
  if (!options.stratify.empty() && !options.group.empty()) {
    throw Error{
        Errc::invalid_config, "SplitOptions",
        fmt::format("names a column to stratify by, '{}', and one of groups, '{}'", options.stratify, options.group),
        "write one of them"};
  }
  auto const rows = dataset.rows();
  auto const total = static_cast<std::size_t>(std::llround(static_cast<double>(rows) * test_fraction));
  auto const& name = options.group.empty() ? options.stratify : options.group;
  auto const* const column = name.empty() ? nullptr : &dataset.column(name);
  if (column != nullptr) column->check_one_value_a_row(attempted);
  if (total == 0 || total == rows) {
    throw Error{Errc::invalid_call, attempted,
                fmt::format("of {} rows none would be left for the {}", rows, total == 0 ? "test" : "training"),
                "use another fraction, or more rows"};
  }
  if (column == nullptr) {
    return (options.shuffle ? dataset.random_shuffle(options.seed) : dataset).split_at(rows - total);
  }
  auto const groups = detail::row_groups({column, 1});
  if (!options.group.empty() && groups.size() < 2) {
    throw Error{Errc::invalid_call, attempted, fmt::format("all rows are of one group of column '{}'", name),
                "use a column that tells at least two groups apart"};
  }
  std::vector<std::uint64_t> order(rows);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  if (options.shuffle) order = *dataset.shuffled_rows({.seed = options.seed});
  return detail::divide(dataset, order, groups,
                        options.group.empty() ? detail::held_out_of_classes(groups, test_fraction, total, options)
                                              : detail::held_out_of_groups(groups, total, options));
}

}  // namespace raytrain
