// SPDX-License-Identifier: Apache-2.0
// Trainings that have the same bits with any number of workers.
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/testing/random_seed.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::random_seed;
using raytrain::testing::thrown_error;

namespace {

constexpr int shards = 8;

/// With running statistics, and a buffer that changes in each forward and has a part in it.
struct NormedNetImpl : torch::nn::Module {
  NormedNetImpl() : hidden{64, 32}, norm{32}, out{32, 10} {
    register_module("hidden", hidden);
    register_module("norm", norm);
    register_module("out", out);
    drift = register_buffer("drift", torch::zeros({64}));
  }
  auto forward(torch::Tensor const& x) -> torch::Tensor {
    drift.mul_(0.9).add_(x.detach().mean(0), 0.1);
    return out(torch::relu(norm(hidden(x - drift))));
  }
  torch::nn::Linear hidden;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear out;
  torch::Tensor drift;
};
TORCH_MODULE(NormedNet);

struct Setup {
  WorkerCount workers = 1;
  int virtual_shards = shards;
  std::uint64_t seed = 1;
  int epochs = 2;
  std::vector<std::shared_ptr<Callback>> callbacks{};
};

auto trainer_of(std::filesystem::path const& folder, Setup const& setup, TrainTorch train) -> Trainer<TorchBackend> {
  return Trainer<TorchBackend>{std::move(train),
                               {.scaling = {.num_workers = setup.workers, .virtual_shards = setup.virtual_shards},
                                .run = {.name = "run",
                                        .storage_path = folder,
                                        .failure = {.max_failures = -1},
                                        .seed = setup.seed,
                                        .handle_signals = false},
                                .datasets = {{"train", small_images(203)}},
                                .callbacks = setup.callbacks}};
}

auto pixels_of(TorchBatch const& batch) -> torch::Tensor { return batch["image"].flatten(1).to(torch::kFloat) / 255; }

/// What ends a step early or comes in its way, of the worker's; called behind each step.
using AfterStep = std::function<void(TorchContext&, ShardPosition)>;

/// Trains with random numbers of the worker's in each batch. Parameters and buffers of rank 0 are `state` in the end.
auto training(Setup const& setup, Tensors& state, AfterStep after_step = {}) -> TrainTorch {
  return [&state, epochs = setup.epochs, after_step = std::move(after_step)](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return NormedNet{}; });
    torch::optim::Adam optimizer{model->parameters(), 1e-2};
    auto shard = ctx.dataset_shard("train");
    for (auto epoch = ctx.restore(shard, model, optimizer); epoch < epochs; ++epoch) {
      auto loss_sum = 0.0;
      for (auto const& batch : shard.batches({.batch_size = 5, .epoch = epoch})) {
        optimizer.zero_grad();
        auto const x = pixels_of(batch);
        auto const noise = torch::rand(x.sizes(), ctx.generator());
        auto const y = model(torch::dropout(x + 0.1 * noise, 0.1, true));
        auto const loss = torch::nn::functional::cross_entropy(y, batch["label"].to(torch::kLong));
        loss.backward();
        if (!batch.is_padding()) loss_sum += loss.item<double>();
        if (!batch.ends_step()) continue;
        optimizer.step();
        if (after_step) after_step(ctx, shard.position());
        if (ctx.stop_requested()) ctx.hand_over(save(model, optimizer));
      }
      ctx.report(Epoch{epoch, loss_sum}, save(model, optimizer));
    }
    if (ctx.world_rank() == Rank{0}) {
      state = copies(model->parameters());
      for (auto const& buffer : copies(model->buffers())) state.push_back(buffer);
    }
  };
}

auto state_after(Setup const& setup) -> Tensors {
  TemporaryFolder const folder;
  Tensors state;
  trainer_of(folder.path(), setup, training(setup, state)).fit();
  return state;
}

}  // namespace

TEST_CASE("a training with virtual shards has the same parameters and statistics with 1, 2, 3, 4, 5 and 8 workers") {
  auto const seed = random_seed();
  CAPTURE(seed);
  auto const expected = state_after({.workers = 1, .seed = seed});
  for (int const workers : {2, 3, 4, 5, 8}) {
    CAPTURE(workers);
    CHECK(same_bits(state_after({.workers = workers, .seed = seed}), expected));
  }
  CHECK_FALSE(same_bits(state_after({.workers = 1, .seed = seed + 1}), expected));
  CHECK_FALSE(same_bits(state_after({.workers = 1, .virtual_shards = 4, .seed = seed}), expected));
}

TEST_CASE("a training whose number of workers changes by random, and whose workers fail, ends with the bits of one") {
  auto const seed = random_seed();
  CAPTURE(seed);
  Setup const still{.workers = 1, .seed = seed, .epochs = 4};
  auto const expected = state_after(still);
  struct Resizer : Callback {
    void on_start(RunInfo const& info) override { resize = info.resize; }
    std::function<void(std::int64_t)> resize;
  };
  auto const resizer = std::make_shared<Resizer>();
  auto setup = still;
  setup.workers = {1, shards};
  setup.callbacks = {resizer};
  std::mt19937_64 random{seed};
  std::set<int> failed;
  std::map<int, std::pair<bool, std::int64_t>> events;  // by step: a failure, or another number of workers
  for (int i = 0; i < 8; ++i) {
    events[static_cast<int>(1 + random() % (4 * 5))] = {random() % 3 == 0,
                                                        static_cast<std::int64_t>(1 + random() % shards)};
  }
  std::mutex mutex;
  auto const after_step = [&](TorchContext& ctx, ShardPosition position) {
    constexpr int steps_of_epoch = 5;  // 203 rows, 8 shards of 25, 5 at a time
    auto const step = static_cast<int>(position.epoch) * steps_of_epoch + static_cast<int>(position.samples) / 40;
    auto const event = events.find(step);
    if (event == events.end()) return;
    ctx.barrier();
    auto const [fails, workers] = event->second;
    auto const is_first = [&] {
      std::lock_guard const lock{mutex};
      return ctx.world_rank() == Rank{0} && failed.insert(step).second;
    }();
    if (!is_first) return;
    if (fails) throw std::runtime_error{"fails in step " + std::to_string(step)};
    resizer->resize(workers);
  };
  TemporaryFolder const folder;
  Tensors state;
  auto const result = trainer_of(folder.path(), setup, training(setup, state, after_step)).fit();
  CHECK(same_bits(state, expected));
  CHECK(result.history.size() == 4);
  CHECK(failed.size() == events.size());
  CHECK(result.attempts.size() > 1);
}

TEST_CASE("a model that runs two backwards of each batch has the same bits with any number of workers") {
  auto const trained = [](int workers) {
    Tensors state;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      torch::optim::SGD optimizer{model->parameters(), 0.1};
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
        for (auto const part : {0, 1}) {
          auto const x = pixels_of(batch) + part;
          torch::nn::functional::cross_entropy(model(x), batch["label"].to(torch::kLong)).backward();
        }
        if (!batch.ends_step()) continue;
        optimizer.step();  // of the sum of both
        optimizer.zero_grad();
      }
      if (ctx.world_rank() == Rank{0}) state = copies(model->parameters());
    };
    TemporaryFolder const folder;
    trainer_of(folder.path(), {.workers = workers}, train).fit();
    return state;
  };
  auto const expected = trained(8);
  for (int const workers : {1, 3, 4}) CHECK(same_bits(trained(workers), expected));
}

TEST_CASE(
    "batches of two datasets side by side, each with a backward, and of a third after each step, change no bits") {
  auto const trained = [](int workers) {
    Tensors state;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return NormedNet{}; });
      torch::optim::SGD optimizer{model->parameters(), 0.1};
      auto second = ctx.dataset_shard("second");
      auto const others = second.batches({.batch_size = 5});
      auto other = others.begin();
      auto const backward = [&](TorchBatch const& batch) {
        auto const x = pixels_of(batch);
        auto const noise = torch::rand(x.sizes(), ctx.generator());
        torch::nn::functional::cross_entropy(model(x + noise), batch["label"].to(torch::kLong)).backward();
      };
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
        backward(batch);
        backward(*other);
        ++other;
        if (!batch.ends_step()) continue;
        optimizer.step();
        optimizer.zero_grad();
        ctx.report(Epoch{0, 0}, save(model));
        auto validation = ctx.dataset_shard("validation");
        std::int64_t rows = 0;
        for (auto const& held_out : validation.batches({.batch_size = 4})) rows += held_out.size();
        CHECK(rows > 0);
      }
      if (ctx.world_rank() == Rank{0}) state = copies(model->parameters());
    };
    TemporaryFolder const folder;
    Trainer<TorchBackend> trainer{
        train,
        {.scaling = {.num_workers = workers, .virtual_shards = 4},
         .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
         .data = {.datasets_to_split = {"train", "second", "validation"}},
         .datasets = {{"train", small_images(90)}, {"second", small_images(90)}, {"validation", small_images(40)}}}};
    trainer.fit();
    return state;
  };
  auto const expected = trained(4);
  for (int const workers : {1, 2, 3}) CHECK(same_bits(trained(workers), expected));
}

TEST_CASE("a batch that is held while its iterator goes on keeps its shard's random numbers, also the last one") {
  auto const trained = [](int workers) {
    Tensors state;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      torch::optim::SGD optimizer{model->parameters(), 0.1};
      auto const batches = ctx.dataset_shard("train").batches({.batch_size = 100});  // one step
      auto at = batches.begin();
      while (at != batches.end()) {
        auto const batch = *at;
        ++at;
        auto const other_model = ctx.prepare_model([] { return torch::nn::Linear{2, 2}; });
        auto const noise = torch::rand({batch.size(), 64}, ctx.generator());
        model(pixels_of(batch) + noise).square().mean().backward();
        if (batch.ends_step()) optimizer.step();
      }
      if (ctx.world_rank() == Rank{0}) state = copies(model->parameters());
    };
    TemporaryFolder const folder;
    trainer_of(folder.path(), {.workers = workers}, train).fit();
    return state;
  };
  auto const expected = trained(8);
  for (int const workers : {1, 2, 3}) CHECK(same_bits(trained(workers), expected));
}

TEST_CASE(
    "a shard's random numbers are others than the worker's, and those of its generator others than the default ones") {
  auto const train = [](TorchContext& ctx) {
    Tensors drawn;
    auto const draw = [&] {
      drawn.push_back(torch::rand({4}));
      drawn.push_back(torch::rand({4}, ctx.generator()));
    };
    draw();
    for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 100})) {
      if (!batch.is_padding()) draw();
    }
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(torch::equal(drawn[i], drawn[j]));
    }
  };
  TemporaryFolder const folder;
  trainer_of(folder.path(), {.workers = 2}, train).fit();
}

TEST_CASE("statistics that batches without a backward have moved are those of shard 0, with any number of workers") {
  auto const moved = [](int workers) {
    Tensors state;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return NormedNet{}; });
      torch::NoGradGuard const no_grad;
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) (void)model(pixels_of(batch));
      if (ctx.world_rank() == Rank{0}) state = copies(model->buffers());
    };
    TemporaryFolder const folder;
    trainer_of(folder.path(), {.workers = workers}, train).fit();
    return state;
  };
  auto const expected = moved(8);
  for (int const workers : {1, 2, 3}) CHECK(same_bits(moved(workers), expected));
}

TEST_CASE("a model that is prepared within an epoch trains from that batch on") {
  TemporaryFolder const folder;
  auto steps = 0;
  auto const train = [&](TorchContext& ctx) {
    std::optional<torch::nn::Linear> model;
    for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
      if (!model) model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      (*model)(pixels_of(batch)).square().mean().backward();
      if (!batch.ends_step()) continue;
      if (ctx.world_rank() == Rank{0} && (*model)->weight.grad().abs().sum().item<double>() > 0) ++steps;
      (*model)->zero_grad();
    }
  };
  CHECK(trainer_of(folder.path(), {.workers = 3}, train).fit().state == RunState::finished);
  CHECK(steps == 5);
}

TEST_CASE("gradients that are kept over steps add up with virtual shards as they do without") {
  auto const gradients = [](int workers, int virtual_shards) {
    Tensors kept;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
        torch::nn::functional::cross_entropy(model(pixels_of(batch)), batch["label"].to(torch::kLong)).backward();
      }
      if (ctx.world_rank() == Rank{0}) kept = copies({model->weight.grad(), model->bias.grad()});
    };
    TemporaryFolder const folder;
    trainer_of(folder.path(), {.workers = workers, .virtual_shards = virtual_shards}, train).fit();
    return kept;
  };
  auto const expected = gradients(4, 0);
  for (int const workers : {1, 2, 3}) {
    auto const found = gradients(workers, 4);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(torch::allclose(found[i], expected[i], 1e-4, 1e-6));
  }
}

TEST_CASE("what a step of virtual shards does not allow is refused, and says where the optimizer steps") {
  auto const refusal = [](TrainTorch const& train) {
    TemporaryFolder const folder;
    auto trainer = trainer_of(folder.path(), {.workers = 2}, train);
    return thrown_error([&] { return trainer.fit().history.size(); });
  };
  auto const each_batch = [](std::function<void(TorchContext&, torch::nn::Linear&, TorchBatch const&)> action) {
    return [action = std::move(action)](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) action(ctx, model, batch);
    };
  };
  auto const backward = [](torch::nn::Linear& model, TorchBatch const& batch) {
    model(pixels_of(batch)).square().mean().backward();
  };
  check_contains(refusal(each_batch([&](TorchContext&, torch::nn::Linear& model, TorchBatch const& batch) {
                   backward(model, batch);
                   torch::NoGradGuard const no_grad;
                   model->weight.add_(1);
                 })),
                 "a model's parameters have changed between two backwards of one step; step all optimizers behind all "
                 "backwards, where Batch::ends_step() says so");
  check_contains(refusal([&](TorchContext& ctx) {
                   auto judge = ctx.prepare_model([] { return torch::nn::Linear{10, 1}; });
                   auto maker = ctx.prepare_model([] { return torch::nn::Linear{64, 10}; });
                   for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
                     judge(maker(pixels_of(batch)).detach()).sum().backward();
                     if (batch.ends_step()) torch::optim::SGD{judge->parameters(), 0.1}.step();
                     judge(maker(pixels_of(batch))).sum().backward();
                   }
                 }),
                 "a model's parameters have changed between two backwards of one step");
  check_contains(refusal([&](TorchContext& ctx) {
                   torch::nn::EmbeddingOptions const options = torch::nn::EmbeddingOptions{256, 2}.sparse(true);
                   auto model = ctx.prepare_model([&] { return torch::nn::Embedding{options}; });
                   for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 5})) {
                     model(batch["label"].to(torch::kLong)).sum().backward();
                   }
                 }),
                 "parameter 'weight' has a sparse gradient");
  check_contains(refusal(each_batch([&](TorchContext& ctx, torch::nn::Linear& model, TorchBatch const& batch) {
                   backward(model, batch);
                   ctx.report(Epoch{0, 0}, save(model));
                 })),
                 "is asked for within a step, of which only some shards' gradients are there");
  check_contains(refusal(each_batch([&](TorchContext&, torch::nn::Linear& model, TorchBatch const& batch) {
                   backward(model, batch);
                   if (batch.ends_step()) backward(model, batch);
                 })),
                 "backward() was called more often for this batch than for the first one of the step, 1 times");
  check_contains(refusal(each_batch([&](TorchContext&, torch::nn::Linear& model, TorchBatch const& batch) {
                   if (!batch.ends_step()) backward(model, batch);
                 })),
                 "backward() was called 0 times for a batch, and 1 times for the first one of its step; call it "
                 "equally often for each batch of a step");
  check_contains(refusal([&](TorchContext& ctx) {
                   auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
                   model(torch::ones({1, 2})).sum().backward();
                 }),
                 "backward() was called before a batch of a split dataset was taken");
}

TEST_CASE("more workers than virtual shards, and a negative number of these, are refused before anything starts") {
  TemporaryFolder const folder;
  Tensors state;
  auto const refusal = [&](Setup const& setup) {
    return thrown_error([&] { return trainer_of(folder.path(), setup, training(setup, state)).fit().history.size(); });
  };
  CHECK(refusal({.workers = {1, 9}}) ==
        "invalid_config: ScalingConfig::virtual_shards: must not be below the number of workers (got 8 for 9 workers); "
        "write the most workers that the run may ever have");
  check_contains(refusal({.virtual_shards = -1}), "must be from 0 to 4096 (got -1)");
  check_contains(refusal({.virtual_shards = 500}), "203 rows cannot be divided among 500 virtual shards");
}
