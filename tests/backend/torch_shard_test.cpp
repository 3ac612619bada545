// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/torch_shard.hpp>

#include <cstdint>
#include <vector>

#include "torch_run.hpp"

namespace {

using namespace raytrain;

auto shard_of(Dataset dataset) -> TorchShard { return TorchShard{DatasetShard{std::move(dataset), ShardOptions{}}}; }

}  // namespace

TEST_CASE("a batch's tensors have the column's type, the batch's size and the row's shape, and hold its rows") {
  auto shard = shard_of(small_images(10));
  auto const all = shard.dataset().column("image").as<std::uint8_t>();
  std::int64_t seen = 0;
  for (auto batch : shard.batches({.batch_size = 4})) {
    auto const images = batch["image"];
    CHECK((images.scalar_type() == torch::kByte));
    CHECK(images.sizes() == std::vector<std::int64_t>{batch.size(), 8, 8});
    CHECK(batch["label"].sizes() == std::vector<std::int64_t>{batch.size()});
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      auto const row = batch.rows().row(static_cast<std::size_t>(i));
      CHECK(images[i][2][3].item<std::uint8_t>() == all[row * 64 + 2 * 8 + 3]);
    }
    seen += batch.size();
  }
  CHECK(seen == 10);
}

TEST_CASE("tensors of one batch stay as they are when the next one is drawn") {
  auto shard = shard_of(Dataset::from_columns({{"x", std::vector<float>{1, 2}}}));
  std::vector<torch::Tensor> kept;
  for (auto batch : shard.batches({.batch_size = 1, .shuffle = false})) kept.push_back(batch["x"]);
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].item<float>() == 1);
  CHECK(kept[1].item<float>() == 2);
}

TEST_CASE("every type that LibTorch has is handed over as it is") {
  auto shard = shard_of(Dataset::from_columns({{"i8", std::vector<std::int8_t>{-1}},
                                               {"i16", std::vector<std::int16_t>{-2}},
                                               {"i32", std::vector<std::int32_t>{-3}},
                                               {"i64", std::vector<std::int64_t>{-4}},
                                               {"f32", std::vector<float>{0.5F}},
                                               {"f64", std::vector<double>{0.25}},
                                               {"f16", std::vector<Float16>{Float16{0.75F}}},
                                               {"bf16", std::vector<BFloat16>{BFloat16{1.5F}}},
                                               {"u16", std::vector<std::uint16_t>{1}}}));
  auto const batches = shard.batches({.batch_size = 1});
  auto const batch = batches[0];
  CHECK(batch["i8"].item<std::int8_t>() == -1);
  CHECK(batch["i16"].item<std::int16_t>() == -2);
  CHECK(batch["i32"].item<std::int32_t>() == -3);
  CHECK(batch["i64"].item<std::int64_t>() == -4);
  CHECK(batch["f32"].item<float>() == 0.5F);
  CHECK(batch["f64"].item<double>() == 0.25);
  CHECK((batch["f16"].scalar_type() == torch::kHalf));
  CHECK(batch["f16"].item<float>() == 0.75F);
  CHECK((batch["bf16"].scalar_type() == torch::kBFloat16));
  CHECK(batch["bf16"].item<float>() == 1.5F);
  CHECK_THROWS_WITH_AS(batch["u16"], doctest::Contains("LibTorch has no tensors of that type"), Error);
  CHECK_THROWS_WITH_AS(batch["u32"], doctest::Contains("column 'u32': is not in the dataset"), Error);
}

TEST_CASE("copies to the CPU hand over the very tensor that was filled, in memory that is not pinned") {
  raytrain::detail::DeviceCopies const copies{torch::kCPU};
  CHECK_FALSE(copies.cpu_options().pinned_memory());
  auto const filled = torch::ones({3}, copies.cpu_options());
  CHECK(copies.to_device(filled).is_same(filled));
}

TEST_CASE("a shard with copies to the CPU gives the tensors of one without") {
  auto const dataset = small_images(5);
  auto plain = shard_of(dataset);
  TorchShard copying{DatasetShard{dataset, ShardOptions{}},
                     {.copies = std::make_shared<raytrain::detail::DeviceCopies>(torch::kCPU)}};
  auto const options = BatchOptions{.batch_size = 5};
  auto const expected = plain.batches(options)[0]["image"];
  auto const batches = copying.batches(options);
  CHECK(torch::equal(batches[0]["image"], expected));
  for (auto batch : batches) CHECK(torch::equal(batch["image"], expected));
}
