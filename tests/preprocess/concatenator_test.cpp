// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/concatenator.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"
#include "fit_workers.hpp"

using raytrain::Column;
using raytrain::Concatenator;
using raytrain::Dataset;
using raytrain::ElementType;
using raytrain::FitRows;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<Concatenator> && !raytrain::InvertiblePreprocessor<Concatenator>);

namespace {

auto measured() -> Dataset {
  return Dataset::from_columns({{"a", std::vector<float>{1, 2}},
                                Column::of_texts("city", {"Oslo", "Rome"}),
                                {"b", std::vector<std::uint8_t>{10, 11, 20, 21}, {2}},
                                {"id", std::vector<std::int64_t>{7, 8}},
                                {"c", std::vector<double>{0.1, -0.2}}});
}

TEST_CASE("joined columns lie in each row in the order that is asked for, and are dropped") {
  Concatenator const joins{{"c", "b", "a"}};
  auto const joined = joins.transform(measured());
  // By hand, as numpy.hstack of the columns gives it.
  CHECK(values_of<float>(joined, "features") == std::vector<float>{0.1F, 10, 11, 1, -0.2F, 20, 21, 2});
  CHECK(joined.column("features").row_shape() == raytrain::RowShape{4});
  CHECK(joined.column_names() == std::vector<std::string>{"city", "id", "features"});
  raytrain::testing::check_comes_back_from_json(joins, measured());
}

TEST_CASE("joined columns stay where that is asked for, may be float64, and have another name") {
  Concatenator const joins{{"a", "c"}, "x", ElementType::float64, true};
  auto const joined = joins.transform(measured());
  CHECK(values_of<double>(joined, "x") == std::vector<double>{1, 0.1, 2, -0.2});
  CHECK(joined.column_names() == std::vector<std::string>{"a", "city", "b", "id", "c", "x"});
  raytrain::testing::check_comes_back_from_json(joins, measured());
}

TEST_CASE("joined columns may all be dropped, or one of them be replaced") {
  auto const numbers = measured().drop_columns({"city", "id"});
  CHECK(Concatenator{{"a", "b", "c"}}.transform(numbers).column_names() == std::vector<std::string>{"features"});
  CHECK(Concatenator{{"a", "b"}, "a"}.transform(numbers).column_names() == std::vector<std::string>{"c", "a"});
}

TEST_CASE("without names all columns of numbers are joined but those that are excluded, as they lie where it learns") {
  Concatenator joins{.exclude = {"id", "c"}};
  joins.fit(measured());
  auto const joined = joins.transform(measured());
  CHECK(values_of<float>(joined, "features") == std::vector<float>{1, 10, 11, 2, 20, 21});
  CHECK(joined.column_names() == std::vector<std::string>{"city", "id", "c", "features"});
  // Rows to be predicted have no label.
  CHECK(joins.transform(measured().drop_columns({"id", "city"})).column_names() ==
        std::vector<std::string>{"c", "features"});
  Concatenator all{};
  all.fit(measured());
  CHECK(all.transform(measured()).column("features").row_shape() == raytrain::RowShape{5});
  Concatenator beside{.keep_columns = true, .exclude = {"a", "b", "id"}};
  beside.fit(measured());
  CHECK(values_of<float>(beside.transform(measured()), "features") == std::vector<float>{0.1F, -0.2F});
  raytrain::testing::check_comes_back_from_json(joins, measured());
  auto const refused = [](Concatenator wrong, Dataset const& rows) { return thrown_error([&] { wrong.fit(rows); }); };
  check_contains(refused({.exclude = {"lable"}}, measured()), "not_found: column 'lable'");
  check_contains(refused({.columns = {"a"}, .exclude = {"id"}}, measured()),
                 "invalid_config: Concatenator::exclude: names columns, and so does Concatenator::columns");
  check_contains(refused({}, measured().select_columns({"city"})),
                 "invalid_data: Concatenator::fit: no column of numbers is left to be joined; make numbers of texts");
}

TEST_CASE("without names rows in another order, and with more columns, are joined as where it learnt") {
  Concatenator joins{.exclude = {"id", "c"}};
  joins.fit(measured());
  auto const other = measured().select_columns({"b", "id", "a", "c"}).with_column({"new", std::vector<float>{3, 4}});
  auto const joined = joins.transform(other);
  CHECK(values_of<float>(joined, "features") == std::vector<float>{1, 10, 11, 2, 20, 21});
  CHECK(joined.column_names() == std::vector<std::string>{"id", "c", "new", "features"});
  raytrain::testing::check_comes_back_from_json(joins, other);
  check_contains(thrown_error([&] { (void)joins.transform(measured().drop_columns({"b"})); }),
                 "not_found: column 'b': is not in the dataset");
  joins.fit(other);
  CHECK(values_of<float>(joins.transform(measured().with_column({"new", std::vector<float>{3, 4}})), "features") ==
        std::vector<float>{10, 11, 1, 3, 20, 21, 2, 4});
}

TEST_CASE("without names it has to learn them, for which a chain makes no rows") {
  CHECK_FALSE(raytrain::AnyPreprocessor{Concatenator{}}.is_fitted());
  CHECK_FALSE(raytrain::AnyPreprocessor{Concatenator{}}.learns_from_rows());
  CHECK(raytrain::AnyPreprocessor{Concatenator{{"a"}}}.is_fitted());
  check_contains(thrown_error([] { (void)Concatenator{}.transform(measured()); }),
                 "invalid_call: Concatenator::transform: it has not learnt from any rows yet; call fit before");
  raytrain::Chain chain{Concatenator{.exclude = {"id"}}};
  CHECK_FALSE(chain.is_fitted());
  chain.fit(measured());
  CHECK(chain.transform(measured()).column("features").row_values() == 4);
}

TEST_CASE("joined rows of many blocks are all there") {
  constexpr std::size_t rows = 1'003;
  std::vector<std::int32_t> first(rows);
  std::vector<std::int16_t> second(2 * rows);
  for (std::size_t row = 0; row < rows; ++row) {
    first[row] = static_cast<std::int32_t>(row);
    second[2 * row] = static_cast<std::int16_t>(2 * row);
    second[2 * row + 1] = static_cast<std::int16_t>(2 * row + 1);
  }
  auto const joined = Concatenator{{"a", "b"}}.transform(
      Dataset::from_columns({{"a", std::move(first)}, {"b", std::move(second), {2}}}));
  auto const values = joined.column("features").as<float>();
  for (std::size_t row = 0; row < rows; ++row) {
    REQUIRE(values[3 * row] == static_cast<float>(row));
    REQUIRE(values[3 * row + 1] == static_cast<float>(2 * row));
    REQUIRE(values[3 * row + 2] == static_cast<float>(2 * row + 1));
  }
}

TEST_CASE("nothing is joined of text, by wrong settings, or under a name that is taken, on any worker") {
  auto const fit = [](Concatenator joins) { return thrown_error([&] { joins.fit(measured()); }); };
  check_contains(fit({{"a", "a"}}), "names 'a' twice");
  check_contains(fit({{"a"}, ""}), "invalid_config: Concatenator::output_column_name: is empty");
  check_contains(fit({{"a"}, "x", ElementType::int8}), "Concatenator::dtype: must be float32 or float64 (got int8)");
  check_contains(fit({{"town"}}), "column 'town': is not in the dataset");
  check_contains(fit({{"a", "city"}}),
                 "invalid_data: Concatenator::fit: column 'city' holds text; "
                 "make numbers of it before, by OneHotEncoder or OrdinalEncoder");
  check_contains(fit({{"a", "b"}, "id"}), "Concatenator::fit: the dataset has a column 'id' already");
  check_contains(fit({{"a", "b"}, "a", ElementType::float32, true}),
                 "the dataset has a column 'a' already, which stays beside");
  check_contains(thrown_error([] { (void)Concatenator{{"city"}}.transform(measured()); }), "Concatenator::transform: ");
  auto const of_workers = raytrain::testing::learnt_by_workers(
      measured(), 3, [](FitRows const& rows) { return thrown_error([&] { Concatenator{{"city"}}.fit(rows); }); });
  for (auto const& error : of_workers) check_contains(error, "Concatenator::fit: column 'city' holds text");
}

}  // namespace
