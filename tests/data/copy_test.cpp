// SPDX-License-Identifier: Apache-2.0
#include <raytrain/data/dataset_shard.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/materialize.hpp>

#include "../support/temporary_folder.hpp"
#include "copy_count.hpp"

namespace {

using namespace raytrain;

constexpr std::size_t copied_rows = 1'000;
constexpr std::size_t copied_row_values = 28;

auto numbers() -> Dataset {
  std::vector<float> values(copied_rows * copied_row_values);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Dataset::from_columns({{"x", std::move(values), {copied_row_values}}});
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("an epoch's batches copy each byte of their rows once, in any order, from memory and from mapped files") {
  raytrain::testing::TemporaryFolder const folder;
  auto const in_memory = numbers();
  for (auto const& dataset : {in_memory, materialize(folder.path() / "rows", in_memory)}) {
    DatasetShard shard{dataset, {}};
    std::vector<float> x(8 * copied_row_values);
    for (BatchOptions const& options :
         {BatchOptions{.batch_size = 8, .shuffle = false}, BatchOptions{.batch_size = 8, .shuffle = true},
          BatchOptions{.batch_size = 8, .shuffle = true, .shuffle_window = 64}}) {
      CAPTURE(options.shuffle);
      CAPTURE(options.shuffle_window);
      auto const range = shard.batches(options);
      auto const before = copied_bytes();
      for (auto const batch : range) batch.gather<float>("x", x);
      CHECK(copied_bytes() - before == copied_rows * copied_row_values * sizeof(float));
    }
  }
}
#endif

TEST_CASE("unshuffled batches are seen where the dataset has them") {
  auto const dataset = numbers();
  auto const* const first = dataset.column("x").as<float>().data();
  DatasetShard shard{dataset, {}};
  auto const range = shard.batches({.batch_size = 8, .shuffle = false});
  auto const before = copied_bytes();
  for (auto const batch : range) {
    auto const x = batch.contiguous<float>("x");
    REQUIRE(x);
    CHECK(x->data() == first + batch.row(0) * copied_row_values);
    CHECK(x->size() == batch.size() * copied_row_values);
  }
  CHECK(copied_bytes() == before);
}
