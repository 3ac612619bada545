// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/sort.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/order_keys.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"
#include "numbered_rows.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::sort;
using raytrain::testing::thrown_error;

namespace {
/// The numbers of the rows, as they come when they are sorted by these values.
template <class T>
auto order_of(std::vector<T> values, raytrain::SortOptions const& options = {}) -> std::vector<std::int64_t> {
  auto const sorted =
      raytrain::sort(numbered(values.size()).add_column({"value", std::move(values)}), "value", options);
  auto const numbers = sorted.column("number").template as<std::int64_t>();
  return {numbers.begin(), numbers.end()};
}
}  // namespace

TEST_CASE_TEMPLATE("integers are sorted from the smallest to the largest that there are, and back", T, std::int8_t,
                   std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                   std::uint64_t) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> const values{1, Limits::max(), 0, Limits::min(), Limits::max() - 1, 0};
  auto const smallest =
      Limits::min() == 0 ? std::vector<std::int64_t>{2, 3, 5, 0, 4, 1} : std::vector<std::int64_t>{3, 2, 5, 0, 4, 1};
  auto const largest =
      Limits::min() == 0 ? std::vector<std::int64_t>{1, 4, 0, 2, 3, 5} : std::vector<std::int64_t>{1, 4, 0, 2, 5, 3};
  CHECK(order_of(values) == smallest);
  CHECK(order_of(values, {.descending = true}) == largest);
}

TEST_CASE_TEMPLATE("floats are sorted by value, equal ones stay in their order, and NaN are last either way", T, float,
                   double, raytrain::Float16, raytrain::BFloat16) {
  std::vector<T> values;
  auto const infinity = std::numeric_limits<float>::infinity();
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  for (auto const value : {1.5F, -0.0F, nan, -infinity, 0.0F, -2.0F, infinity, -nan, 1.5F}) {
    values.push_back(static_cast<T>(value));
  }
  CHECK(order_of(values) == std::vector<std::int64_t>{3, 5, 1, 4, 0, 8, 6, 2, 7});
  CHECK(order_of(values, {.descending = true}) == std::vector<std::int64_t>{6, 0, 8, 1, 4, 5, 3, 2, 7});
}

TEST_CASE("integers that no double tells apart are told apart") {
  auto const large = std::int64_t{1} << 60U;
  CHECK(order_of<std::int64_t>({large + 1, large}) == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("groups come in the order of their values, with NaN as one of them") {
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  auto const groups =
      raytrain::detail::row_groups(std::vector<Column>{{"x", std::vector<double>{2, nan, -0.0, 2, -nan, 0}}});
  CHECK(groups.rows == Rows{2, 5, 0, 3, 1, 4});
  CHECK(groups.begins == std::vector<std::size_t>{0, 2, 4, 6});
  CHECK(groups.of_rows() == std::vector<std::size_t>{1, 2, 0, 1, 2, 0});
  CHECK(raytrain::detail::row_groups(std::vector<Column>{{"x", std::vector<double>{}}}).size() == 0);
}

TEST_CASE(
    "rows of one value in the first column are in the order of the second, and so on, as a stable sort puts them") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (auto round = 0; round < 20; ++round) {
    auto const rows = random() % 200;
    std::vector<std::int32_t> a(rows), number(rows);
    std::vector<float> b(rows);
    std::vector<std::optional<std::string>> c;
    for (std::size_t row = 0; row < rows; ++row) {
      a[row] = static_cast<std::int32_t>(random() % 3) - 1;
      b[row] = random() % 4 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(random() % 3);
      c.push_back(random() % 4 == 0 ? std::nullopt
                                    : std::optional{std::string(1, static_cast<char>('x' + random() % 3))});
      number[row] = static_cast<std::int32_t>(row);
    }
    auto const data = Dataset::from_columns({{"a", a}, {"b", b}, Column::of_texts("c", c), {"number", number}});
    for (bool const descending : {false, true}) {
      CAPTURE(descending);
      auto expected = sort(sort(sort(data, "c", {descending}), std::string{"b"}, {descending}), "a", {descending});
      auto const sorted = sort(data, {"a", "b", "c"}, {descending});
      CHECK(
          std::ranges::equal(sorted.column("number").as<std::int32_t>(), expected.column("number").as<std::int32_t>()));
    }
  }
  auto const one = Dataset::from_columns({{"a", std::vector<float>{1}}});
  CHECK(thrown_error([&] {
          (void)sort(one, {"a", "a"});
        }) == "invalid_call: sort: column 'a' is named twice; name each once");
  CHECK(thrown_error([&] { (void)sort(one, std::vector<std::string>{}); }) ==
        "invalid_call: sort: got no column; name at least one");
}

TEST_CASE("what has more than one value a row cannot be sorted by") {
  auto const dataset = Dataset::from_columns({{"image", std::vector<float>(8), {2, 2}}});
  CHECK(thrown_error([&] { (void)raytrain::sort(dataset, "image"); }) ==
        "invalid_data: sort: column 'image' has rows of shape 2 x 2, and not of one number; take a column of one "
        "number a row");
  raytrain::testing::check_contains(thrown_error([&] { (void)raytrain::sort(dataset, "age"); }),
                                    "not_found: column 'age': is not in the dataset, which has image");
  auto const one = Dataset::from_columns({{"x", std::vector<float>{2, 1}, {1}}});
  CHECK(raytrain::sort(one, "x").column("x").as<float>()[0] == 1);
}
