// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/torch_shard.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/data/prefetch_options.hpp>

#include "../data/copy_count.hpp"

using namespace raytrain;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a batch's tensors are where its rows are copied to, each byte once") {
  constexpr std::size_t rows = 100;
  TorchShard shard{DatasetShard{Dataset::from_columns({{"x", std::vector<float>(rows * 30), {5, 6}},
                                                       {"image", std::vector<std::uint8_t>(rows * 64), {8, 8}}}),
                                {}}};
  for (bool const shuffle : {true, false}) {
    CAPTURE(shuffle);
    std::size_t samples = 0;
    for (auto const batch : shard.batches({.batch_size = 8, .shuffle = shuffle})) {
      for (auto const* const column : {"x", "image"}) {
        auto const before = copied_bytes();
        auto const tensor = batch[column];
        CHECK(copied_bytes() - before == tensor.nbytes());
        auto const last_row = shuffle ? tensor.nbytes() - tensor.nbytes() / batch.rows().size() : 0;
        CHECK(copied_to() == static_cast<std::byte const*>(tensor.data_ptr()) + last_row);
      }
      samples += batch.rows().size();
    }
    CHECK(samples == rows);
  }
}

TEST_CASE("what threads make of batches reaches the loop without another copy") {
  TorchShard shard{DatasetShard{Dataset::from_columns({{"x", std::vector<float>(3'000), {30}}}), {}}};
  auto const batches =
      shard.batches({.batch_size = 8}).map([](TorchBatch const& batch) { return batch["x"]; }, {.threads = 2});
  auto const before = copied_bytes();
  std::size_t bytes = 0;
  for (auto&& tensor : batches) bytes += tensor.nbytes();
  CHECK(bytes == 3'000 * sizeof(float));
  CHECK(copied_bytes() - before == bytes);
}
#endif
