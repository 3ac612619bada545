// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset_shard.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "allocation_count.hpp"

TEST_CASE("batches and gathers allocate nothing once an epoch has begun") {
  auto const dataset = raytrain::Dataset::from_columns(
      {{"x", std::vector<float>(28000), {28}}, {"label", std::vector<std::uint8_t>(1000)}});
  raytrain::DatasetShard shard{dataset, {}};
  std::vector<float> x(8 * std::size_t{28});
  std::vector<std::uint8_t> label(8);
  for (bool const shuffle : {true, false}) {
    auto const range = shard.batches({.batch_size = 8, .shuffle = shuffle});
    auto const before = allocation_count();
    for (auto const batch : range) {
      batch.gather<float>("x", x);
      batch.gather<std::uint8_t>("label", label);
    }
    CHECK(allocation_count() == before);
  }
}

TEST_CASE("a copy of a dataset or of a shard's range costs no allocation") {
  auto const dataset = raytrain::Dataset::from_columns({{"x", std::vector<float>(100)}});
  raytrain::DatasetShard shard{dataset, {}};
  auto const range = shard.batches({.batch_size = 8});
  auto const before = allocation_count();
  auto const copy = dataset;
  auto const range_copy = range;
  CHECK(allocation_count() == before);
  CHECK(copy.rows() == 100);
  CHECK(range_copy.size() == 13);
}
