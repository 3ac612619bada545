// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/datasets.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/config/scaling_config.hpp>

#include "../support/thrown_error.hpp"

using raytrain::DataConfig;
using raytrain::Dataset;
using raytrain::Datasets;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {
auto of_rows(std::size_t rows) -> Dataset { return Dataset::from_columns({{"x", std::vector<float>(rows)}}); }
auto const train_and_test = Datasets{{"train", of_rows(3)}, {"test", of_rows(1)}};
}  // namespace

TEST_CASE("a dataset is found by its name, and another name is refused with those that there are") {
  CHECK(raytrain::find_dataset(train_and_test, "train").rows() == 3);
  CHECK(thrown_error([] { return raytrain::find_dataset(train_and_test, "tarin").rows(); }) ==
        "not_found: dataset 'tarin': is not among the run's datasets: test, train; name one of them, or add it to "
        "TrainerConfig::datasets");
  check_contains(thrown_error([] { return raytrain::find_dataset({}, "x").rows(); }), "datasets: (none)");
}

TEST_CASE("as many workers as rows are accepted, and one more is refused with both numbers") {
  CHECK_NOTHROW(raytrain::validate_datasets(train_and_test, DataConfig{}, {.num_workers = 3}));
  CHECK(thrown_error([] {
          raytrain::validate_datasets(train_and_test, DataConfig{}, {.num_workers = 4});
          return 0;
        }) ==
        "invalid_config: dataset 'train': 3 rows cannot be divided among 4 workers; use at most 3 workers, or take "
        "'train' out of DataConfig::datasets_to_split");
}

TEST_CASE("only what is split limits the number of workers") {
  CHECK_NOTHROW(raytrain::validate_datasets(train_and_test, DataConfig{.datasets_to_split = {}}, {.num_workers = 100}));
  check_contains(thrown_error([] {
                   raytrain::validate_datasets(train_and_test, DataConfig{.datasets_to_split = {"train", "test"}},
                                               {.num_workers = 2});
                   return 0;
                 }),
                 "dataset 'test': 1 rows cannot be divided among 2 workers");
}

TEST_CASE("a dataset to split that is not there is refused, which would give all rows to every worker") {
  auto const check = [](Datasets const& datasets, DataConfig const& config, std::uint32_t workers) {
    raytrain::validate_datasets(datasets, config, {.num_workers = workers});
    return 0;
  };
  DataConfig const misspelt{.datasets_to_split = {"train", "tset"}};
  check_contains(thrown_error([&] { return check(train_and_test, misspelt, 1); }),
                 "invalid_config: DataConfig::datasets_to_split: no dataset is named 'tset'");
  check_contains(thrown_error([&] { return check(train_and_test, misspelt, 1); }), "there are test, train");
  check_contains(thrown_error([&] { return check({}, misspelt, 2); }), "there are (none)");
  check_contains(thrown_error([&] { return check({{"points", of_rows(9)}}, {}, 2); }), "no dataset is named 'train'");
  CHECK(check({{"points", of_rows(9)}}, {}, 1) == 0);
  CHECK(check({{"points", of_rows(9)}}, {.datasets_to_split = {}}, 2) == 0);
  CHECK(check({}, {}, 2) == 0);
}

TEST_CASE("a dataset without rows or without a name is refused") {
  auto const check = [](Datasets const& datasets) {
    raytrain::validate_datasets(datasets, DataConfig{}, {.num_workers = 1});
    return 0;
  };
  CHECK(thrown_error([&] {
          return check({{"val", of_rows(0)}});
        }) == "invalid_data: dataset 'val': has no rows; give it some or leave it out");
  check_contains(thrown_error([&] { return check({{"val", Dataset{}}}); }), "has no rows");
  CHECK(thrown_error([&] {
          return check({{"", of_rows(1)}});
        }) == "invalid_config: TrainerConfig::datasets: a dataset's name is empty; name it, for instance \"train\"");
}

TEST_CASE("a dataset whose name is not UTF-8, which no checkpoint can keep, is refused, and shown as text") {
  auto const check = [](Datasets const& datasets) {
    raytrain::validate_datasets(datasets, DataConfig{}, {.num_workers = 1});
    return 0;
  };
  CHECK(check({{"na\xc3\xafve", of_rows(1)}}) == 0);
  CHECK(thrown_error([&] {
          return check({{"na\xefve", of_rows(1)}});
        }) ==
        "invalid_config: TrainerConfig::datasets: the name 'na\xef\xbf\xbdve' is not UTF-8; name it in UTF-8, for "
        "instance \"train\"");
}
