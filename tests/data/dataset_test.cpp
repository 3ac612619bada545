// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/float16.hpp>
#include <raytrain/data/row.hpp>

#include "../support/thrown_error.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::ElementType;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

static_assert(raytrain::Element<std::uint8_t> && !raytrain::Element<bool> && !raytrain::Element<char>);

namespace {
auto three_rows() -> Dataset {
  return Dataset::from_columns({{"image", std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 2}},
                                {"label", std::vector<std::int64_t>{7, 8, 9}}});
}
}  // namespace

static_assert(std::ranges::forward_range<raytrain::RowRange> && std::ranges::sized_range<raytrain::RowRange>);

TEST_CASE("the rows of a dataset are gone through in their order, also of one that is a temporary") {
  auto const people = Dataset::from_columns(
      {{"age", std::vector<float>{30, 40, 50}}, Column::of_texts("city", {"Oslo", std::nullopt, "Rome"})});
  double ages = 0;
  std::string cities;
  std::vector<std::size_t> indices;
  for (auto const& row : rows(people)) {
    ages += row.get<float>("age");
    cities += row.text("city").value_or("-");
    indices.push_back(row.index());
  }
  CHECK(ages == 120);
  CHECK(cities == "Oslo-Rome");
  CHECK(indices == std::vector<std::size_t>{0, 1, 2});
  ages = 0;
  for (auto const& row : rows(Dataset::from_columns({{"age", std::vector<float>{1, 2}}})))
    ages += row.get<float>("age");
  CHECK(ages == 3);
  auto const range = rows(people);
  CHECK(range.size() == 3);
  CHECK(std::ranges::count_if(range, [](raytrain::Row const& row) { return row.get<float>("age") > 35; }) == 2);
  CHECK(std::ranges::empty(rows(Dataset{})));
}

TEST_CASE("the digest tells names, types, shapes, values and their order apart, and nothing else") {
  auto const of = [](std::vector<Column> columns) { return Dataset::from_columns(std::move(columns)).digest(); };
  std::vector<float> const values{1, 2, 3, 4};
  auto const digest = of({{"x", values}});
  CHECK(digest.size() == 32);
  CHECK(of({{"x", values}}) == digest);
  CHECK(Dataset::from_columns({{"x", std::vector<float>{1, 2, 3, 4, 5}}}).head(4).digest() == digest);
  std::set<std::string> const others{of({{"y", values}}),
                                     of({{"x", std::vector<float>{1, 2, 3, 5}}}),
                                     of({{"x", std::vector<float>{2, 1, 3, 4}}}),
                                     of({{"x", values, {2}}}),
                                     of({{"x", std::vector<double>{1, 2, 3, 4}}}),
                                     of({{"x", values}, {"y", values}}),
                                     of({{"y", values}, {"x", values}}),
                                     Dataset{}.digest()};
  CHECK(others.size() == 8);
  CHECK_FALSE(others.contains(digest));
}

TEST_CASE("of a large column the digest counts its first and its last byte, and evenly spaced pieces between") {
  std::vector<std::uint8_t> values(1000);
  auto const of = [&] {
    return raytrain::detail::content_digest(std::vector<Column>{{"x", values}}, {.pieces = 10, .piece_bytes = 10});
  };
  auto const digest = of();
  std::size_t counted = 0;
  for (std::size_t at = 0; at < values.size(); ++at) {
    values[at] = 1;
    auto const counts = of() != digest;
    values[at] = 0;
    if (counts) ++counted;
    if (at == 0 || at == 110 || at == 999) CHECK(counts);
    if (at == 10 || at == 989) CHECK_FALSE(counts);
  }
  CHECK(counted == 100);
}

TEST_CASE("a dataset says what it was made from") {
  auto const dataset = three_rows();
  CHECK(dataset.rows() == 3);
  CHECK(dataset.column_names() == std::vector<std::string>{"image", "label"});
  auto const& image = dataset.column("image");
  CHECK(image.type() == ElementType::uint8);
  CHECK(image.row_shape() == raytrain::RowShape{2, 2});
  CHECK(image.row_values() == 4);
  CHECK(image.row_bytes() == 4);
  CHECK(image.as<std::uint8_t>()[11] == 12);
  CHECK(dataset.column("label").row_bytes() == 8);
  CHECK(dataset.column("label").row_shape().empty());
  CHECK(dataset.column("label").as<std::int64_t>()[1] == 8);
  CHECK(Dataset{}.rows() == 0);
}

TEST_CASE("rows without a column are counted, also those of a part") {
  auto const rows = Dataset::of_rows(10);
  CHECK(rows.rows() == 10);
  CHECK(rows.columns().empty());
  CHECK(rows.head(4).rows() == 4);
  CHECK(rows.split_at(7).second.rows() == 3);
  std::vector<std::uint64_t> const some{9, 9, 0};
  CHECK(rows.select(some).rows() == 3);
  CHECK(Dataset{}.rows() == 0);
}

TEST_CASE_TEMPLATE("every element type comes back as it went in", T, std::uint8_t, std::int8_t, std::int16_t,
                   std::int32_t, std::int64_t, float, double) {
  std::vector<T> const values{std::numeric_limits<T>::lowest(), T{1}, std::numeric_limits<T>::max()};
  Dataset const dataset = Dataset::from_columns({{"x", values}});
  Column const& column = dataset.column("x");
  CHECK(column.type() == raytrain::element_type<T>);
  CHECK(raytrain::size_bytes(column.type()) == sizeof(T));
  CHECK(std::vector<T>(column.as<T>().begin(), column.as<T>().end()) == values);
}

TEST_CASE_TEMPLATE("values of 16 bits come back bit by bit, a NaN and the smallest among them", T, raytrain::Float16,
                   raytrain::BFloat16) {
  std::vector<T> const values{T{1.5F}, T::from_bits(0x0001), T::from_bits(0xffff), T{-2.0F}};
  Dataset const dataset = Dataset::from_columns({{"x", values, {2}}});
  Column const& column = dataset.column("x");
  CHECK(column.type() == raytrain::element_type<T>);
  CHECK(column.row_bytes() == 4);
  CHECK(column.rows() == 2);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(column.as<T>()[i].bits() == values[i].bits());
}

TEST_CASE("a type of 16 bits is not taken for another one") {
  auto const dataset = Dataset::from_columns({{"x", std::vector<raytrain::Float16>(3)}});
  CHECK(thrown_error([&] { return dataset.column("x").as<raytrain::BFloat16>(); }) ==
        "invalid_data: column 'x' as bfloat16: it holds float16 of row shape scalar; ask for float16, or convert it "
        "before it goes into the dataset");
}

TEST_CASE("vectors that are moved in, copies, heads and splits share one memory") {
  std::vector<float> values(100);
  auto const* const memory = values.data();
  auto const dataset = Dataset::from_columns({{"x", std::move(values), {2}}});
  CHECK(dataset.column("x").as<float>().data() == memory);
  auto const copy = dataset;
  CHECK(copy.column("x").as<float>().data() == memory);
  CHECK(dataset.head(10).column("x").as<float>().data() == memory);
  CHECK(dataset.head(10).rows() == 10);
  CHECK(dataset.head(1000).rows() == 50);
  auto const [before, after] = dataset.split_at(20);
  CHECK(before.rows() == 20);
  CHECK(after.rows() == 30);
  CHECK(after.column("x").as<float>().data() == memory + 40);
  CHECK(after.head(5).split_at(2).second.column("x").as<float>().data() == memory + 44);
  CHECK(dataset.split_at(50).second.rows() == 0);
}

TEST_CASE("selected rows are copied in the order that is asked for, and one that is not there is refused") {
  auto const dataset = Dataset::from_columns(
      {{"x", std::vector<float>{0, 1, 2, 3, 4, 5}, {2}}, {"y", std::vector<std::int16_t>{7, 8, 9}}});
  auto const selected = dataset.select(std::vector<std::uint64_t>{2, 0, 2, 1});
  auto const x = selected.column("x").as<float>();
  auto const y = selected.column("y").as<std::int16_t>();
  CHECK(std::vector<float>(x.begin(), x.end()) == std::vector<float>{4, 5, 0, 1, 4, 5, 2, 3});
  CHECK(std::vector<std::int16_t>(y.begin(), y.end()) == std::vector<std::int16_t>{9, 7, 9, 8});
  CHECK(selected.column("x").describe() == dataset.column("x").describe());
  CHECK(dataset.select({}).rows() == 0);
  check_contains(thrown_error([&] {
                   (void)dataset.select(std::vector<std::uint64_t>{1, 3});
                 }),
                 "there is no row 3: the dataset has 3");
}

TEST_CASE("a part of a dataset keeps the memory alive") {
  auto values = std::vector<std::int32_t>{1, 2, 3, 4};
  auto part = Dataset::from_columns({{"x", std::move(values)}}).split_at(2).second;
  CHECK(part.column("x").as<std::int32_t>()[1] == 4);
}

TEST_CASE("memory of somebody else is used as it is and released after the last use") {
  auto const owner = std::make_shared<std::vector<std::byte>>(8);
  {
    Column const column{{.name = "x", .type = ElementType::int16, .row_shape = {2}}, {owner, owner->data()}, 2};
    auto const dataset = Dataset::from_columns({column});
    CHECK(dataset.column("x").bytes().data() == owner->data());
    CHECK(owner.use_count() > 1);
  }
  CHECK(owner.use_count() == 1);
}

TEST_CASE("a column of another name or type is refused with what there is") {
  auto const dataset = three_rows();
  CHECK(thrown_error([&] { return dataset.column("lable"); }) ==
        "not_found: column 'lable': is not in the dataset, which has image (uint8, 2 x 2), label (int64, scalar); name "
        "one "
        "of them");
  CHECK(thrown_error([&] { return dataset.column("image").as<float>(); }) ==
        "invalid_data: column 'image' as float32: it holds uint8 of row shape 2 x 2; ask for uint8, or convert it "
        "before it goes "
        "into the dataset");
  check_contains(thrown_error([] { return Dataset{}.column("x"); }), "which has none");
}

TEST_CASE("columns that do not make a dataset are refused with names and numbers") {
  std::vector<float> const three(3);
  std::vector<float> const four(4);
  CHECK(thrown_error([&] {
          return Dataset::from_columns({{"a", three}, {"b", four}});
        }) ==
        "invalid_data: Dataset::from_columns: column 'a' has 3 rows and column 'b' has 4; give every column as many "
        "rows");
  CHECK(thrown_error([&] {
          return Dataset::from_columns({{"a", three}, {"a", three}});
        }) == "invalid_data: Dataset::from_columns: two columns are named 'a'; give each column its own name");
  CHECK(thrown_error([&] { return Dataset::from_columns({}); }) ==
        "invalid_data: Dataset::from_columns: got no column; give at least one");
  CHECK(thrown_error([&] {
          return Column{"", three};
        }) == "invalid_data: column: its name is empty; name it, for instance \"label\"");
  CHECK(thrown_error([&] {
          return Column{"image", three, {2, 2}};
        }) ==
        "invalid_data: column 'image': 3 values do not divide by the row shape 2 x 2, which is 4 a row; give the shape "
        "of one row, without the number of rows");
  CHECK(thrown_error([&] {
          return Column{"image", three, {2, 0}};
        }) ==
        "invalid_data: column 'image': no row can have the shape 2 x 0: it is empty; write {} for one value per row");
  check_contains(thrown_error([&] {
                   return Column{"image", three, {std::size_t{1} << 40U, std::size_t{1} << 40U}};
                 }),
                 "it is too large");
  CHECK(thrown_error([&] { return three_rows().split_at(4); }) ==
        "invalid_call: Dataset::split_at(4): the dataset has only 3 rows; split at one of them");
}
