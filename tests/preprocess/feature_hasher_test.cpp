// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/feature_hasher.hpp>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"

using raytrain::Column;
using raytrain::Dataset;
using raytrain::FeatureHasher;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<FeatureHasher> && !raytrain::InvertiblePreprocessor<FeatureHasher>);

namespace {

auto people() -> Dataset {
  return Dataset::from_columns({Column::of_texts("city", {"Oslo", "Rome", std::nullopt}),
                                {"x", std::vector<float>{1, 2, 3}},
                                Column::of_texts("zip", {"0150", "0150", "00184"}),
                                {"age", std::vector<double>{31.5, std::numeric_limits<double>::quiet_NaN(), 2}}});
}

TEST_CASE("a hash is that of Python's xxhash") {
  // xxhash.xxh3_64_intdigest(text) of the package xxhash 4.1.0
  auto const hash = [](std::string const& text) { return raytrain::detail::xxh3_64_of(raytrain::bytes_of(text)); };
  CHECK(hash("") == 3244421341483603138U);
  CHECK(hash("raytrain") == 5070396469289600765U);
  CHECK(hash(std::string(300, 'a')) == 13966073120003161633U);
}

TEST_CASE("hashed columns are added up at places that are the same everywhere") {
  FeatureHasher hasher{{"city", "zip", "age"}, 8};
  hasher.fit(people());
  auto const hashed = hasher.transform(people());
  // Python, with the package xxhash: each row's sums at h(key), where
  //   h = lambda key: xxhash.xxh3_64_intdigest(key) % 8
  // of "city=Oslo" (0), "city=Rome" (2), "zip=0150" (0), "zip=00184" (4), and of "age" (1) the number.
  CHECK(values_of<float>(hashed, "hashed_features") ==
        std::vector<float>{2, 31.5, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0});
  CHECK(hashed.column("hashed_features").row_shape() == raytrain::RowShape{8});
  CHECK(hashed.column_names() == std::vector<std::string>{"x", "hashed_features"});
  raytrain::testing::check_comes_back_from_json(hasher, people());
}

TEST_CASE("hashed columns have settings in their range, and one value a row") {
  auto const fit = [](FeatureHasher hasher) {
    return thrown_error([&] { hasher.fit(people().with_column({"pair", std::vector<float>(6), {2}})); });
  };
  check_contains(fit({}), "invalid_config: FeatureHasher::columns: names no column");
  check_contains(fit({{"city"}, 0}), "invalid_config: FeatureHasher::num_features: must be from 1 to 1048576 (got 0)");
  check_contains(fit({{"city"}, 1'048'577}), "must be from 1 to 1048576 (got 1048577)");
  check_contains(fit({{"city"}, 8, ""}), "invalid_config: FeatureHasher::output_column: is empty");
  check_contains(fit({{"city"}, 8, "age"}), "FeatureHasher::fit: the dataset has a column 'age' already");
  check_contains(fit({{"town"}}), "column 'town': is not in the dataset");
  check_contains(fit({{"pair"}}), "invalid_data: FeatureHasher::fit: column 'pair' has rows of shape 2");
  check_contains(thrown_error([] { (void)FeatureHasher{{"town"}}.transform(people()); }), "column 'town'");
}

}  // namespace
