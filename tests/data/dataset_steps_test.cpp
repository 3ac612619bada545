// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_text.hpp>
#include <raytrain/data/describe.hpp>
#include <raytrain/data/filter.hpp>
#include <raytrain/data/group_by.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/data/sort.hpp>
#include <raytrain/data/train_test_split.hpp>
#include <raytrain/data/write_csv.hpp>

#include "../support/temporary_folder.hpp"

using raytrain::Aggregate;
using raytrain::Dataset;

namespace {

auto with_log_income(Dataset const& batch) -> Dataset {
  std::vector<float> logs;
  for (auto const income : batch.column("income").as<float>()) logs.push_back(std::log1p(income));
  return batch.add_column({"log income", std::move(logs)});
}

void write_people(std::filesystem::path const& path) {
  std::ofstream file{path};
  file << "id,age,inc,label\n";
  for (auto i = 0; i < 100; ++i)
    file << i << ',' << 10 + i % 50 << ',' << 1000 * i << ',' << (i % 5 == 0 ? 1 : 0) << '\n';
}

TEST_CASE("a table is read, looked at, prepared, divided and written in a few steps") {
  raytrain::testing::TemporaryFolder const folder;
  auto const input = folder.path() / "people.csv";
  auto const output = folder.path() / "adults.csv";
  write_people(input);

  auto const people = raytrain::read_csv(input).drop_columns({"id"}).rename_columns({{"inc", "income"}});
  auto const first_rows = to_string(people, 5);
  auto const statistics = to_string(raytrain::describe(people));
  auto const adults = filter(people, [](raytrain::Row const& row) { return row.get<float>("age") >= 18; });
  auto const prepared = map_batches(adults, with_log_income, {.threads = 4});
  auto const classes = group_by(prepared, "label").aggregate({{Aggregate::count}, {Aggregate::mean, "log income"}});
  auto const [train, test] = train_test_split(prepared, 0.2, {.stratify = "label"});
  write_csv(sort(test, "age", {.descending = true}), output);

  CHECK(first_rows.find("income") != std::string::npos);
  CHECK(statistics.find("age") != std::string::npos);
  CHECK(adults.rows() == 84);
  CHECK(classes.column("count()").as<std::int64_t>()[1] == 16);
  CHECK(train.rows() == 67);
  auto const again = raytrain::read_csv(output);
  CHECK(again.rows() == 17);
  CHECK(again.column("age").as<float>().front() >= again.column("age").as<float>().back());
  CHECK(again.column_names() == std::vector<std::string>{"age", "income", "label", "log income"});
}

}  // namespace
