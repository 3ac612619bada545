// SPDX-License-Identifier: Apache-2.0
// Blocks and token numbers in trainings with LibTorch.
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/preprocess/tokenizer.hpp>
#include <raytrain/trainer.hpp>

#include "torch_run.hpp"

TEST_CASE("a training on blocks goes on at the next block, each worker at its own, by the position in its state") {
  TemporaryFolder const folder;
  std::ofstream{folder.path() / "rows.csv"} << "x\n1\n2\n4\n8\n16\n32\n64\n";
  auto failures = 0;
  std::vector<double> sums(2);
  auto const train = [&](raytrain::TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    raytrain::BlocksPosition position;
    double sum = 0;
    raytrain::TrainingState state{model, optimizer, {"position", position}, {"sum", sum}};
    (void)ctx.restore(state);
    for (; position.epoch < 2; position = {.epoch = position.epoch + 1}) {
      auto blocks = raytrain::csv_blocks(folder.path() / "rows.csv", {}, 1).shard(ctx.world_rank(), ctx.world_size());
      blocks.begin_at(position);
      for (auto block = blocks.next(); ctx.sum(block ? 1.0 : 0.0) > 0; block = blocks.next()) {
        if (block) sum += static_cast<double>(block->column("x").as<float>()[0]);
        position = blocks.position();
        ctx.report(Epoch{static_cast<int>(position.epoch), sum}, save(state));
        if (rank != 0 || failures == 4) continue;
        ++failures;
        throw std::runtime_error{"failure " + std::to_string(failures)};
      }
    }
    sums[rank] = sum;
  };
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      {.scaling = {.num_workers = 2},
       .run = {.name = "run", .storage_path = folder.path(), .failure = {.max_failures = 4}, .handle_signals = false}}};
  CHECK(trainer.fit().state == raytrain::RunState::finished);
  CHECK(failures == 4);
  CHECK(sums == std::vector<double>{2 * (1 + 4 + 16 + 64), 2 * (2 + 8 + 32)});
}

TEST_CASE("where not all workers had taken equally many blocks, another number of them begins that epoch anew") {
  TemporaryFolder const folder;
  std::ofstream{folder.path() / "rows.csv"} << "x\n1\n2\n4\n";
  std::vector<std::int64_t> begins;  // epochs of rank 0
  auto const train = [&](raytrain::TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
    raytrain::BlocksPosition position;
    raytrain::TrainingState state{model, {"position", position}};
    (void)ctx.restore(state);
    CHECK(position.blocks == 0);
    if (ctx.world_rank() == raytrain::Rank{0}) begins.push_back(position.epoch);
    if (ctx.checkpoint()) return;
    position = {.epoch = 1};
    auto blocks = raytrain::csv_blocks(folder.path() / "rows.csv", {}, 1).shard(ctx.world_rank(), ctx.world_size());
    blocks.begin_at(position);
    while (blocks.next()) position = blocks.position();
    ctx.report(Epoch{1, 0}, save(state));
  };
  run_in(folder.path(), {.workers = 2}, train);
  auto const result = run_in(folder.path(), {.workers = 1}, train);
  CHECK(begins == std::vector<std::int64_t>{0, 1});
  CHECK(warnings_with(result,
                      "the 2 workers of the checkpoint had not taken equally many blocks, and now there are 1: "
                      "epoch 1 begins anew, with blocks that were taken, too") == 1);
}

TEST_CASE("an Embedding takes the numbers of a Tokenizer, and learns nothing of padding") {
  auto const texts =
      raytrain::Dataset::from_columns({raytrain::Column::of_texts("text", {"a b c", "b", std::nullopt, "c c c c"})});
  raytrain::Tokenizer tokenizer{{"text"}, 3};
  tokenizer.fit(texts);
  auto const size = static_cast<std::int64_t>(tokenizer.num_tokens("text"));
  torch::nn::Embedding embedding{
      torch::nn::EmbeddingOptions{size, 2}.padding_idx(static_cast<std::int64_t>(raytrain::Tokenizer::padding))};
  raytrain::TorchShard shard{raytrain::DatasetShard{tokenizer.transform(texts), {}}};
  for (auto const& batch : shard.batches({.batch_size = 4, .shuffle = false})) {
    auto const embedded = embedding(batch["text"]);
    CHECK(embedded.sizes() == torch::IntArrayRef{4, 3, 2});
    CHECK(embedded[2].abs().sum().item<float>() == 0);
    embedded.sum().backward();
  }
  auto const gradient = embedding->weight.grad().sum(1);
  CHECK(gradient.equal(torch::tensor({0.0F, 0.0F, 2.0F, 4.0F, 8.0F})));
}
