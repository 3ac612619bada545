// SPDX-License-Identifier: Apache-2.0
// Rows that come block by block, for the tests of what trees are grown on, and what each library is to do with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>

#include "../support/thrown_error.hpp"

namespace raytrain::testing {

inline constexpr auto nan = std::numeric_limits<float>::quiet_NaN();

/// Columns of several types, of which "b" lacks each fifth value where `has_gaps`; "w" is a weight, "c" a category.
[[nodiscard]] inline auto rows_of(std::size_t rows, bool has_gaps = true) -> Dataset {
  std::mt19937 random{5};
  std::normal_distribution<float> normal;
  std::vector<float> a(rows);
  std::vector<double> b(rows);
  std::vector<std::int32_t> c(rows);
  std::vector<float> w(rows);
  std::vector<std::uint8_t> target(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    a[row] = normal(random);
    b[row] = normal(random);
    c[row] = static_cast<std::int32_t>(random() % 4);
    w[row] = static_cast<float>(1 + random() % 3);
    target[row] = static_cast<double>(a[row]) * b[row] > 0 || c[row] == 2 ? 1 : 0;
    if (has_gaps && row % 5 == 3) b[row] = nan;
  }
  return Dataset::from_columns({{"a", a}, {"b", b}, {"c", c}, {"w", w}, {"target", target}});
}

/// Blocks of these rows, each with `each` of them, and one without any behind the first.
[[nodiscard]] inline auto blocks_of(Dataset const& rows, std::size_t each) -> DatasetBlocks {
  std::vector<Dataset> blocks;
  for (std::size_t first = 0; first < rows.rows(); first += each) {
    blocks.push_back(rows.split_at(first).second.head(each));
    if (first == 0) blocks.push_back(rows.head(0));
  }
  return {"rows", [blocks, at = std::size_t{0}]() mutable -> std::optional<Dataset> {
            return at == blocks.size() ? std::nullopt : std::optional{blocks[at++]};
          }};
}

[[nodiscard]] inline auto anew(Dataset const& rows, std::size_t each) -> MakeBlocks {
  return [=] { return blocks_of(rows, each); };
}

/// Throws when it gives a block for the n-th time, in whichever pass over the rows.
[[nodiscard]] inline auto failing_at(Dataset const& rows, std::shared_ptr<int> const& left) -> MakeBlocks {
  return [=] {
    return DatasetBlocks{"failing", [left, blocks = blocks_of(rows, 1'000)]() mutable {
                           if (--*left == 0) throw Error{Errc::io, "reading rows.csv", "the disk is gone"};
                           return blocks.next();
                         }};
  };
}

/// Makes a library's matrix of blocks, whose label is "target" where they have one.
using TakeBlocks = std::function<void(MakeBlocks const&)>;

inline void check_one_block_is_in_memory(TakeBlocks const& take, std::size_t least_calls) {
  constexpr std::size_t rows = 9'000;
  auto const alive = std::make_shared<int>(0);
  std::vector<long> seen;
  auto const make = [&] {
    return DatasetBlocks{
        "counted", [&, at = std::size_t{0}]() mutable -> std::optional<Dataset> {
          seen.push_back(alive.use_count() - 1);
          if (at == rows) return std::nullopt;
          std::vector<float> x(1'000);
          std::ranges::transform(x, x.begin(), [&](float) { return static_cast<float>(at++ % 77); });
          auto const* const bytes = reinterpret_cast<std::byte const*>(x.data());
          std::shared_ptr<std::byte const> const first{bytes, [kept = std::move(x), held = alive](std::byte const*) {}};
          return Dataset::from_columns({Column{{.name = "x", .type = ElementType::float32}, first, 1'000}});
        }};
  };
  take(make);
  CHECK(seen.size() >= least_calls);
  CHECK(std::ranges::count(seen, 0) == static_cast<std::ptrdiff_t>(seen.size()));
}

inline void check_error_of_reader_arrives(Dataset const& rows, TakeBlocks const& take, int least_calls) {
  auto const counted = std::make_shared<int>(0);
  take(failing_at(rows, counted));
  auto const calls = -*counted;
  REQUIRE(calls >= least_calls);
  for (int call = 1; call <= calls; ++call) {
    auto const error = thrown_error([&] { take(failing_at(rows, std::make_shared<int>(call))); });
    CHECK_MESSAGE(error == "io: reading rows.csv: the disk is gone", call);
  }
}

/// `owner`: what errors name.
inline void check_other_rows_are_refused(std::string const& owner, TakeBlocks const& take) {
  auto const rows = rows_of(4'000);
  auto const others_later = [&](Dataset const& later, std::size_t each) {
    return thrown_error([&] {
      take([&, is_first = true]() mutable {
        return std::exchange(is_first, false) ? blocks_of(rows, 1'000) : blocks_of(later, each);
      });
    });
  };
  check_contains(others_later(rows.head(3'000), 1'000), "there are 3000 rows, and more at first");
  check_contains(others_later(rows_of(5'000), 1'000), "rows 4000 to 4999 are others than at first");
  check_contains(others_later(rows, 500), "rows 0 to 499 are others than at first");
  check_contains(others_later(rows_of(4'000, false), 1'000), "rows 0 to 999 are others than at first");
  auto const at_noon = [&, is_first = true]() mutable {
    return DatasetBlocks{std::exchange(is_first, false) ? "at noon" : "later",
                         [blocks = blocks_of(rows, 1'000)]() mutable { return blocks.next(); }};
  };
  check_contains(thrown_error([&] { take(at_noon); }),
                 owner + ", reading the rows once more: their source was at noon, and is later; let the function");
  auto const same = blocks_of(rows, 1'000);
  check_contains(thrown_error([&] { take([&] { return same; }); }),
                 "some of the blocks were taken already; make the range anew");
}

/// Rows, and then others.
[[nodiscard]] inline auto two_blocks(Dataset const& first, Dataset const& second) -> MakeBlocks {
  return [=] {
    return DatasetBlocks{"two", [=, at = 0]() mutable -> std::optional<Dataset> {
                           return ++at == 1 ? std::optional{first} : at == 2 ? std::optional{second} : std::nullopt;
                         }};
  };
}

/// `owner`: what errors name.
inline void check_bad_blocks_are_refused(std::string const& owner, TakeBlocks const& take) {
  auto const rows = rows_of(4'000);
  auto const refused = [&](MakeBlocks const& make) { return thrown_error([&] { take(make); }); };
  auto const nothing = [] { return DatasetBlocks{"none", [] { return std::optional<Dataset>{}; }}; };
  check_contains(refused(nothing),
                 owner + ": there are no rows; give at least one; where a worker has none, use fewer workers");
  check_contains(refused(anew(rows.head(0), 10)), "there are no rows");
  check_contains(refused(two_blocks(rows, rows.drop_columns({"b"}))),
                 "row 4000 has the features a, c, w, and those before it have a, b, c, w; give all blocks the same");
  auto labels = std::vector<float>(10);
  labels[7] = nan;
  auto const unlabelled = rows.head(10).drop_columns({"target"}).add_column({"target", labels});
  check_contains(refused(two_blocks(rows, unlabelled)),
                 owner + " of rows 4000 to 4009: row 7 of the label column 'target' is nan");
  check_contains(refused(anew(rows.drop_columns({"target"}), 100)),
                 "column 'target' of rows 0 to 99: is not in the dataset");
}

}  // namespace raytrain::testing
