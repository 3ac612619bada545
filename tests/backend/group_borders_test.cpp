// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/boosting/detail/group_borders.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

#include "../support/thrown_error.hpp"

namespace {

using raytrain::Column;
using raytrain::Dataset;
using raytrain::Rank;
using raytrain::WorldSize;
using raytrain::detail::check_group_ends;
using raytrain::detail::group_ends;
using raytrain::detail::part_of_whole_groups;
using raytrain::testing::thrown_error;

// Groups of so many rows, numbered from 0.
auto grouped(std::vector<std::size_t> const& sizes) -> Dataset {
  std::vector<std::int64_t> ids;
  for (std::size_t group = 0; group < sizes.size(); ++group) {
    ids.insert(ids.end(), sizes[group], static_cast<std::int64_t>(group));
  }
  return Dataset::from_columns({{"query", ids}});
}

// The rows of each worker.
auto rows_of_workers(std::vector<std::size_t> const& sizes, std::uint32_t workers) -> std::vector<std::size_t> {
  auto const data = grouped(sizes);
  auto const* next = data.column("query").as<std::int64_t>().data();
  std::vector<std::size_t> rows;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    auto const part = part_of_whole_groups({data, "train", "query"}, Rank{rank}, WorldSize{workers});
    CHECK(part.column("query").as<std::int64_t>().data() == next);
    next += part.rows();
    rows.push_back(part.rows());
  }
  return rows;
}

}  // namespace

TEST_CASE("a border between two workers goes to the end of the group that it would cut") {
  CHECK(rows_of_workers({3, 4, 5}, 2) == std::vector<std::size_t>{7, 5});
  CHECK(rows_of_workers({3, 3, 6}, 2) == std::vector<std::size_t>{6, 6});
  CHECK(rows_of_workers({1, 1, 1, 1, 1, 1, 1}, 3) == std::vector<std::size_t>{2, 2, 3});
  CHECK(rows_of_workers({5}, 1) == std::vector<std::size_t>{5});
}

TEST_CASE("each worker has a group, however large the others are") {
  CHECK(rows_of_workers({97, 1, 1, 1}, 4) == std::vector<std::size_t>{97, 1, 1, 1});
  CHECK(rows_of_workers({1, 1, 1, 97}, 4) == std::vector<std::size_t>{1, 1, 1, 97});
  CHECK(rows_of_workers({1, 97, 1, 1}, 2) == std::vector<std::size_t>{98, 2});
  CHECK(
      thrown_error([] {
        (void)rows_of_workers({2, 3}, 3);
      }) ==
      "invalid_config: dataset 'train': 2 groups of the column 'query' cannot be divided among 3 workers; use at most "
      "2 workers, or rows of more groups");
}

TEST_CASE("a row without a group is refused, and no row is a group of its own") {
  auto const error = [](Column const& column) {
    return thrown_error([&] {
      (void)part_of_whole_groups({Dataset::from_columns({column}), "train", "query"}, Rank{0}, WorldSize{1});
    });
  };
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(error({"query", std::vector<float>{1, nan, 2, nan}}) ==
        "invalid_data: dataset 'train': row 1 of the group column 'query' is nan; leave out rows without a group");
  CHECK(error({"query", std::vector<double>{1, 1, 2, double{nan}}}) ==
        "invalid_data: dataset 'train': row 3 of the group column 'query' is nan; leave out rows without a group");
  CHECK(error(Column::of_texts("query", {"a", "a", std::nullopt})) ==
        "invalid_data: dataset 'train': row 2 of the group column 'query' is missing; leave out rows without a group");
  auto const negative = Dataset::from_columns({{"query", std::vector<std::int32_t>{-1, -1, 2}}});
  CHECK(part_of_whole_groups({negative, "train", "query"}, Rank{0}, WorldSize{2}).rows() == 2);
}

TEST_CASE("a group with rows on two workers that have rows of their own is refused, and rows that all have are not") {
  auto const numbers = [](std::vector<std::int32_t> const& ids) {
    return group_ends(Dataset::from_columns({{"query", ids}}), "query", "here");
  };
  auto const texts = [](std::vector<std::optional<std::string>> const& ids) {
    return group_ends(Dataset::from_columns({Column::of_texts("query", ids)}), "query", "here");
  };
  check_group_ends({numbers({1, 2}), numbers({3, 3}), numbers({4})}, "query", "here");
  check_group_ends({numbers({0, 1}), numbers({0, 1, 2})}, "query", "here");  // each numbers its own
  check_group_ends({numbers({7, 7}), numbers({7, 7})}, "query", "here");
  CHECK(
      thrown_error([&] {
        check_group_ends({numbers({1, 2}), numbers({2, 3})}, "query", "here");
      }) ==
      "invalid_data: here: rank 0 ends with rows of the group 2 in the column 'query', and rank 1 begins with rows of "
      "it, which would count as two groups; give all rows of a group to one worker");
  CHECK(thrown_error([&] {
          check_group_ends({texts({"a", "b"}), texts({"b", "c"})}, "query", "here");
        }).starts_with("invalid_data: here: rank 0 ends with rows of the group b "));
  check_group_ends({texts({"a", "b"}), texts({"c", "d"})}, "query", "here");  // other codes in each
}
