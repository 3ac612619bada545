// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/column.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_text.hpp>
#include <raytrain/data/describe.hpp>
#include <raytrain/data/filter.hpp>
#include <raytrain/data/group_by.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/row.hpp>
#include <raytrain/data/sort.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using Texts = std::vector<std::optional<std::string>>;

auto texts_of(Column const& column) -> Texts {
  Texts texts;
  for (std::size_t row = 0; row < column.rows(); ++row) texts.emplace_back(column.text(row));
  return texts;
}

auto cities(Texts const& texts) -> Dataset { return Dataset::from_columns({Column::of_texts("city", texts)}); }

TEST_CASE("a column of text keeps each text once, sorted, and the rows as their numbers") {
  auto const column = Column::of_texts("city", {"Rome", std::nullopt, "Oslo", "Rome", ""});
  CHECK(column.is_text());
  CHECK(column.rows() == 5);
  CHECK(std::ranges::equal(column.categories(), std::vector<std::string>{"", "Oslo", "Rome"}));
  CHECK(std::ranges::equal(column.as<std::int32_t>(), std::vector<std::int32_t>{2, -1, 1, 2, 0}));
  CHECK(texts_of(column) == Texts{"Rome", std::nullopt, "Oslo", "Rome", ""});
  CHECK(column.describe() == "city (text, 3 categories)");
  CHECK(texts_of(column.named("town").slice(2, 4)) == Texts{"Oslo", "Rome"});
  CHECK(Column::of_texts("city", {}).categories().empty());
}

TEST_CASE("text is not taken for numbers, nor numbers for text") {
  auto const text = Column::of_texts("city", {"Rome"});
  check_contains(thrown_error([&] { (void)text.as<float>(); }), "it holds text, whose codes are int32");
  check_contains(thrown_error([&] { text.check_holds_numbers("a scaler"); }),
                 "a scaler: column 'city' holds text and no numbers; leave it out");
  Column const numbers{"age", std::vector<float>{1}};
  CHECK(!numbers.is_text());
  check_contains(thrown_error([&] { (void)numbers.categories(); }), "it holds float32 and no text");
  check_contains(thrown_error([&] { (void)numbers.text(0); }), "it holds float32 and no text");
}

TEST_CASE("rows keep their texts when they are selected, split, shuffled and sorted") {
  auto const data = cities({"Rome", std::nullopt, "Oslo", "Rome"});
  CHECK(texts_of(data.select(std::vector<std::uint64_t>{3, 1, 2}).column("city")) ==
        Texts{"Rome", std::nullopt, "Oslo"});
  CHECK(texts_of(data.split_at(2).second.column("city")) == Texts{"Oslo", "Rome"});
  CHECK(Row{data, 2}.text("city") == "Oslo");
  CHECK(Row{data, 1}.text("city") == std::nullopt);
  CHECK(texts_of(sort(data, "city").column("city")) == Texts{"Oslo", "Rome", "Rome", std::nullopt});
  CHECK(texts_of(sort(data, "city", {.descending = true}).column("city")) ==
        Texts{"Rome", "Rome", "Oslo", std::nullopt});
}

TEST_CASE("datasets that are joined have the categories of both") {
  auto const joined = cities({"Rome", std::nullopt}).union_with(cities({"Bonn", "Rome", "Oslo"}));
  CHECK(texts_of(joined.column("city")) == Texts{"Rome", std::nullopt, "Bonn", "Rome", "Oslo"});
  CHECK(std::ranges::equal(joined.column("city").categories(), std::vector<std::string>{"Bonn", "Oslo", "Rome"}));
  auto const [first, second] = joined.split_at(3);
  CHECK(first.union_with(second).column("city").format().categories == joined.column("city").format().categories);
  auto const codes = Dataset::from_columns({Column{"city", std::vector<std::int32_t>{0, 1}}});
  check_contains(thrown_error([&] { (void)joined.union_with(codes); }),
                 "city (text, 3 categories) is here city (int32, scalar)");
}

TEST_CASE("the digest of a dataset depends on its texts, and not on the numbers that stand for them alone") {
  auto const digest = cities({"Rome", "Oslo"}).digest();
  CHECK(cities({"Rome", "Oslo"}).digest() == digest);
  CHECK(cities({"Rome", "Bonn"}).digest() != digest);
  CHECK(cities({"Rome", std::nullopt}).digest() != digest);
}

TEST_CASE("a table shows texts, a summary counts them, and groups have them as keys") {
  auto const data = cities({"Rome", std::nullopt, "Oslo", "Rome"})
                        .add_column({"age", std::vector<float>{1, 2, 3, 4}})
                        .add_column(Column::of_texts("note", {"a", std::nullopt, std::string(50, 'b'), std::nullopt}));
  CHECK(to_string(data) ==
        "city      age                                         note\n"
        "text  float32                                         text\n"
        "Rome        1                                            a\n"
        "            2                                             \n"
        "Oslo        3  bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb...\n"
        "Rome        4                                             \n");
  auto const summary = describe(data)[0];
  CHECK(summary.count == 3);
  CHECK(std::isnan(summary.mean));
  CHECK(std::isnan(summary.max));
  auto const groups = group_by(data, "city").aggregate({{Aggregate::count, "note"}, {Aggregate::sum, "age", "ages"}});
  CHECK(texts_of(groups.column("city")) == Texts{"Oslo", "Rome", std::nullopt});
  CHECK(std::ranges::equal(groups.column("count(note)").as<std::int64_t>(), std::vector<std::int64_t>{1, 1, 0}));
  CHECK(std::ranges::equal(groups.column("ages").as<double>(), std::vector<double>{3, 5, 2}));
  check_contains(thrown_error([&] {
                   (void)group_by(data, "age").aggregate({{Aggregate::mean, "city"}});
                 }),
                 "group_by, mean(city): column 'city' holds text and no numbers");
}

TEST_CASE("texts are written so that they are read again, and refused where they would not be") {
  Texts const texts{"Rome", std::nullopt, "a,\"b\"", "two\nlines", " blank ", "\xEF\xBB\xBFx", "12"};
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  write_csv(cities(texts), path);
  CHECK(texts_of(read_csv(path).column("city")) == texts);
  for (auto const* const text : {"", "NA", " ? "}) {
    check_contains(thrown_error([&] {
                     write_csv(cities({"Rome", text}), path);
                   }),
                   fmt::format("column 'city' has the text '{}', which read_csv takes for a missing one", text));
  }
  CHECK(read_csv(path).rows() == texts.size());
}

TEST_CASE("any texts come back, whatever their number and bytes") {
  std::mt19937 random{raytrain::testing::random_seed()};
  Texts texts;
  for (auto i = 0; i < 5'000; ++i) {
    if (random() % 10 == 0) {
      texts.emplace_back(std::nullopt);
    } else {
      std::string text(random() % 3, '\0');
      for (auto& letter : text) letter = static_cast<char>(random());
      texts.emplace_back(text);
    }
  }
  auto const column = Column::of_texts("bytes", texts);
  CHECK(texts_of(column) == texts);
  CHECK(std::ranges::is_sorted(column.categories()));
  CHECK(std::ranges::adjacent_find(column.categories()) == column.categories().end());
}

TEST_CASE("a text that no row has any more does not keep the others from being written") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.csv";
  auto const cities = Dataset::from_columns({Column::of_texts("city", {"Rome", "NA", "Oslo"})});
  write_csv(cities.head(1), path);
  CHECK(texts_of(read_csv(path).column("city")) == Texts{"Rome"});
  check_contains(thrown_error([&] { write_csv(cities.head(2), path); }), "has the text 'NA'");
}

TEST_CASE("a text that is not UTF-8, and that no row has any more, does not keep the others from lines of JSON") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "table.jsonl";
  auto const cities = Dataset::from_columns({Column::of_texts("city", {"Rome", "K\xF6ln", std::nullopt, "Rome"})});
  write_json_lines(filter(cities, [](Row const& row) { return row.text("city") != "K\xF6ln"; }), path);
  CHECK(texts_of(read_json_lines(path).column("city")) == Texts{"Rome", std::nullopt, "Rome"});
  check_contains(thrown_error([&] { write_json_lines(cities.head(2), path); }), "is not UTF-8");
}

TEST_CASE("joined rows keep the categories of all parts, also those that no row has") {
  auto const some = Dataset::from_columns({Column::of_texts("city", {"Bonn", "Oslo", "Rome"})}).split_at(1).second;
  auto const more = Dataset::from_columns({Column::of_texts("city", {"Rome"})});
  auto const joined = some.union_with(more);
  CHECK(joined.column("city").categories().size() == 3);
  CHECK(texts_of(joined.column("city")) == Texts{"Oslo", "Rome", "Rome"});
}

}  // namespace
