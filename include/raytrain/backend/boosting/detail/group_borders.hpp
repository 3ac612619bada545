// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/boosting/detail/feature_table.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::detail {

/// A dataset that is divided among workers by whole groups.
struct GroupedRows {
  Dataset const& data;
  std::string const& name;   ///< Of the dataset.
  std::string const& group;  ///< Of the column.
};

/// A worker's rows: those of `DatasetShard::part`, but that a border within a group goes to the group's end, or as far
/// as each worker gets a group.
///
/// Errors: `invalid_config` for fewer groups than workers; as `group_sizes`.
[[nodiscard]] inline auto part_of_whole_groups(GroupedRows const& rows, Rank rank, WorldSize workers) -> Dataset {
  std::vector<std::size_t> ends;
  for (auto const size : group_sizes(rows.data.column(rows.group), fmt::format("dataset '{}'", rows.name))) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + size);
  }
  if (ends.size() < workers.value) {
    throw Error{Errc::invalid_config, fmt::format("dataset '{}'", rows.name),
                fmt::format("{} groups of the column '{}' cannot be divided among {} workers", ends.size(), rows.group,
                            workers.value),
                fmt::format("use at most {} workers, or rows of more groups", ends.size())};
  }
  std::size_t before = 0;  // groups of the workers before
  std::size_t first = 0;
  for (std::uint64_t worker = 0;; ++worker) {
    auto const border = static_cast<std::size_t>(std::uint64_t{rows.data.rows()} * (worker + 1) / workers.value);
    auto const up_to = static_cast<std::size_t>(std::ranges::lower_bound(ends, border) - ends.begin()) + 1;
    // At least one for this worker, and one left for each that follows.
    auto const groups = std::clamp(up_to, before + 1, ends.size() - (workers.value - 1 - worker));
    auto const end = ends[groups - 1];
    if (worker == rank.value) return rows.data.split_at(end).first.split_at(first).second;
    before = groups;
    first = end;
  }
}

/// What tells whether a group goes over the border between two workers that have rows of their own.
struct GroupEnds {
  std::string digest{};  ///< Of the dataset: workers may have the same one.
  std::string first{};
  std::string last{};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(digest, first, last);
  }
};

/// Errors: `invalid_data` for a column that is not one number a row; `not_found` for none.
[[nodiscard]] inline auto group_ends(Dataset const& data, std::string const& group, std::string const& attempted)
    -> GroupEnds {
  if (data.rows() == 0) return {data.digest(), {}, {}};
  auto const& column = data.column(group);
  check_one_number_a_row(column, "group", attempted);
  auto const text = [&](std::size_t row) -> std::string {
    if (column.is_text()) return std::string{column.text(row).value_or("")};
    std::string id;
    column.visit([&]<class T>(std::span<T const> values) {
      if constexpr (std::is_arithmetic_v<T>) {
        id = fmt::format("{}", values[row]);
      } else {
        id = fmt::format("{}", static_cast<float>(values[row]));
      }
    });
    return id;
  };
  return {data.digest(), text(0), text(data.rows() - 1)};
}

/// Refuses a group that goes on from one worker's rows into the next one's. Workers with the same dataset share all
/// rows, and are not compared. `group` and `attempted`: the column and the call that an error names.
///
/// Errors: `invalid_data` where a worker's rows end with the group that the next one's begin with.
inline void check_group_ends(std::vector<GroupEnds> const& workers, std::string const& group,
                             std::string const& attempted) {
  for (std::size_t rank = 1; rank < workers.size(); ++rank) {
    auto const& before = workers[rank - 1];
    if (before.digest == workers[rank].digest || before.last != workers[rank].first) continue;
    throw Error{
        Errc::invalid_data, attempted,
        fmt::format("rank {} ends with rows of the group {} in the column '{}', and rank {} begins with rows of "
                    "it, which would count as two groups",
                    rank - 1, before.last, group, rank),
        "give all rows of a group to one worker"};
  }
}

}  // namespace raytrain::detail
