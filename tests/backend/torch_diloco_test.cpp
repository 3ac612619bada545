// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/diloco.hpp>

#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/identifiers.hpp>

#include "../support/thrown_error.hpp"
#include "local_training.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

auto small_net() -> torch::nn::Sequential {
  return torch::nn::Sequential{torch::nn::Linear{4, 5}, torch::nn::BatchNorm1d{5}, torch::nn::Linear{5, 2}};
}

struct DiLoCoRun {
  int workers = 3;
  int steps = 11;
  DiLoCoConfig config{.every = 4};
  CheckpointSource begins_with{};
};

/// Trains in `folder`, and goes on with what lies there; leaves parameters and buffers.
auto trained_in(std::filesystem::path const& folder, DiLoCoRun const& run, ByRank& left) -> Result {
  return run_in(folder, {.workers = run.workers, .begins_with = run.begins_with}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_local_model(small_net);
    torch::optim::AdamW inner{model->parameters(), 0.05};
    raytrain::DiLoCo outer{ctx, model, run.config};
    int step = 0;
    TrainingState state{outer, inner, model, {"step", step}};
    for ((void)ctx.restore(state); step < run.steps; ctx.report(Epoch{step, 1.0}, save(state))) {
      inner.zero_grad();
      loss_of_own_batch(model, rank, step++).backward();
      inner.step();
      outer.step();
    }
    auto tensors = model->parameters();
    for (auto const& buffer : model->buffers()) tensors.push_back(buffer);
    left.put(ctx, tensors);
  });
}

/// What one thread makes of as many models by the paper's Algorithm 1, with LibTorch's SGD for the outer step.
auto trained_by_hand(Tensors const& first, DiLoCoRun const& run) -> std::vector<Tensors> {
  struct Worker {
    torch::nn::Linear model{4, 2};
    std::unique_ptr<torch::optim::SGD> inner;
  };
  auto const set = [](torch::nn::Linear& model, Tensors const& parameters) {
    torch::NoGradGuard const no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) model->parameters()[i].copy_(parameters[i]);
  };
  std::vector<Worker> workers(static_cast<std::size_t>(run.workers));
  for (auto& worker : workers) {
    set(worker.model, first);
    worker.inner = std::make_unique<torch::optim::SGD>(worker.model->parameters(), 0.1);
  }
  torch::nn::Linear global{4, 2};
  set(global, first);
  torch::optim::SGD outer{
      global->parameters(),
      torch::optim::SGDOptions{run.config.lr}.momentum(run.config.momentum).nesterov(run.config.momentum > 0)};
  for (int step = 0; step < run.steps; ++step) {
    for (std::size_t rank = 0; rank < workers.size(); ++rank) {
      auto& [model, inner] = workers[rank];
      inner->zero_grad();
      loss_of_own_batch(model, static_cast<std::uint32_t>(rank), step).backward();
      inner->step();
    }
    if ((step + 1) % run.config.every != 0) continue;
    for (std::size_t i = 0; i < first.size(); ++i) {
      torch::NoGradGuard const no_grad;
      auto parameter = global->parameters()[i];
      auto sum = parameter - workers[0].model->parameters()[i];
      for (std::size_t rank = 1; rank < workers.size(); ++rank) {
        sum = sum + (parameter - workers[rank].model->parameters()[i]);
      }
      parameter.mutable_grad() = sum / run.workers;
    }
    outer.step();
    for (auto& worker : workers) set(worker.model, global->parameters());
  }
  std::vector<Tensors> left;
  for (auto const& worker : workers) left.push_back(copies(worker.model->parameters()));
  return left;
}

}  // namespace

TEST_CASE("DiLoCo has the numbers of as many models that one thread trains, with LibTorch's SGD for the outer step") {
  for (DiLoCoRun const& run : {DiLoCoRun{.workers = 1}, DiLoCoRun{.workers = 2, .steps = 12},
                               DiLoCoRun{.workers = 4, .config = {.every = 3, .lr = 0.5, .momentum = 0}},
                               DiLoCoRun{.workers = 3, .steps = 4, .config = {.every = 1}}}) {
    CAPTURE(run.workers);
    ByRank trained;
    Tensors first;
    run_once({.workers = run.workers}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_local_model([] { return torch::nn::Linear{4, 2}; });
      if (ctx.world_rank() == Rank{0}) first = copies(model->parameters());
      torch::optim::SGD inner{model->parameters(), 0.1};
      DiLoCo outer{ctx, model, run.config};
      for (int step = 0; step < run.steps; ++step) {
        inner.zero_grad();
        loss_of_own_batch(model, ctx.world_rank().value, step).backward();
        inner.step();
        CHECK(outer.step() == ((step + 1) % run.config.every == 0));
      }
      CHECK(outer.rounds() == run.steps / run.config.every);
      CHECK(outer.steps() == run.steps % run.config.every);
      trained.put(ctx, model->parameters());
    });
    auto const expected = trained_by_hand(first, run);
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      for (std::size_t i = 0; i < first.size(); ++i) {
        CHECK(torch::allclose(trained.all()[rank][i], expected[rank][i], 1e-5, 1e-6));
      }
      if (run.steps % run.config.every == 0) CHECK(same_bits(trained.all()[rank], trained.all()[0]));
    }
  }
}

TEST_CASE("behind an outer step buffers are the workers' mean, and counts rank 0's") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_local_model([] { return torch::nn::BatchNorm1d{2}; });
    DiLoCo outer{ctx, model, {.every = 1}};
    torch::NoGradGuard const no_grad;
    model->running_mean.fill_(rank == 0 ? 1.0 : 4.0);
    model->num_batches_tracked.fill_(rank == 0 ? 7.0 : 9.0);
    CHECK(outer.step());
    CHECK(model->running_mean[1].item<double>() == 2.5);
    CHECK(model->num_batches_tracked.item<double>() == 7);
  });
}

TEST_CASE("a parameter of 16 bits follows sums that are kept in 32") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] {
      torch::nn::Linear linear{1, 1};
      linear->to(torch::kBFloat16);
      torch::NoGradGuard const no_grad;
      linear->weight.fill_(256);
      return linear;
    });
    DiLoCo outer{ctx, model, {.every = 1, .lr = 0.25, .momentum = 0}};
    torch::NoGradGuard const no_grad;
    for (int round = 0; round < 4; ++round) {
      model->weight.add_(2);  // a quarter of it is less than two neighbours of 256 in bf16 are apart
      outer.step();
    }
    CHECK(model->weight.item<double>() > 256);
  });
}

TEST_CASE("a DiLoCo training that was ended anywhere in a round goes on to the bits of an undisturbed one") {
  TemporaryFolder const whole;
  ByRank expected;
  trained_in(whole.path(), {}, expected);
  CHECK_FALSE(same_bits(expected.all()[0], expected.all()[1]));
  for (int const ended : {2, 4, 7}) {
    CAPTURE(ended);
    TemporaryFolder const folder;
    ByRank left;
    trained_in(folder.path(), {.steps = ended}, left);
    auto const result = trained_in(folder.path(), {}, left);
    CHECK(warnings_with(result, "DiLoCo") == 0);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(same_bits(left.all()[rank], expected.all()[rank]));
  }
}

TEST_CASE("another number of workers begins the round anew from the global parameters, and a warning says so") {
  TemporaryFolder const folder;
  ByRank global;
  trained_in(folder.path(), {.steps = 4}, global);
  ByRank left;
  trained_in(folder.path(), {.steps = 6}, left);
  auto const result = trained_in(folder.path(), {.workers = 2, .steps = 6}, left);
  CHECK(warnings_with(result,
                      "a round of DiLoCo, of which 3 workers had done 2 steps, begins anew from the global "
                      "parameters, with 2 workers") == 1);
  auto const parameters = [](Tensors const& all) { return Tensors{all.begin(), all.begin() + 6}; };
  for (auto const& tensors : left.all()) CHECK(same_bits(parameters(tensors), parameters(global.all()[0])));
}

TEST_CASE("another number of workers goes on behind an outer step without a warning of DiLoCo's") {
  TemporaryFolder const folder;
  ByRank before;
  trained_in(folder.path(), {.steps = 8}, before);
  ByRank after;
  auto const result = trained_in(folder.path(), {.workers = 2, .steps = 8}, after);
  CHECK(warnings_with(result, "DiLoCo") == 0);
  CHECK(warnings_with(result, "model 'model'") == 0);
  for (auto const& tensors : after.all()) CHECK(same_bits(tensors, before.all()[0]));
}

TEST_CASE("settings that are others in the checkpoint are told of, and count") {
  TemporaryFolder const folder;
  ByRank unused;
  trained_in(folder.path(), {.steps = 3}, unused);
  auto const result = trained_in(folder.path(), {.steps = 4, .config = {.every = 2, .lr = 0.5}}, unused);
  CHECK(warnings_with(result,
                      "DiLoCo goes on with every 2, lr 0.5, momentum 0.9; in the checkpoint it was every 4, lr "
                      "0.7, momentum 0.9") == 1);
  for (auto const& tensors : unused.all()) CHECK(same_bits(tensors, unused.all()[0]));  // an outer step, at once
}

TEST_CASE("from another run's checkpoint the first round begins with its model") {
  TemporaryFolder const base;
  ByRank before;
  auto const stored = trained_in(base.path(), {.workers = 2, .steps = 2}, before);
  TemporaryFolder const folder;
  ByRank after;
  trained_in(folder.path(),
             {.workers = 2, .steps = 1, .config = {.every = 1, .lr = 1e-9}, .begins_with = stored.checkpoint().value()},
             after);
  for (std::size_t i = 0; i < 6; ++i) CHECK(torch::allclose(after.all()[0][i], before.all()[0][i], 0, 1e-6));
}

TEST_CASE("settings that cannot work are refused when a DiLoCo is made, and the message says what to write") {
  auto const refusal = [](DiLoCoConfig const& config) { return thrown_error([&] { config.validate(); }); };
  DiLoCoConfig{.every = 1, .lr = 2, .momentum = 0}.validate();
  CHECK(refusal({.every = 0}) ==
        "invalid_config: DiLoCoConfig::every: must be at least 1 (got 0); write {.every = 50}");
  CHECK(refusal({.lr = 0}) == "invalid_config: DiLoCoConfig::lr: must be a number above 0 (got 0); write {.lr = 0.7}");
  CHECK(refusal({.lr = std::numeric_limits<double>::infinity()}) ==
        "invalid_config: DiLoCoConfig::lr: must be a number above 0 (got inf); write {.lr = 0.7}");
  CHECK(refusal({.momentum = 1}) ==
        "invalid_config: DiLoCoConfig::momentum: must be from 0 to below 1 (got 1); write {.momentum = 0.9}");
  check_contains(refusal({.momentum = -0.1}), "(got -0.1)");
  check_contains(refusal({.momentum = std::nan("")}), "(got nan)");

  auto const texts = failures_of(2, [](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    DiLoCo const outer{ctx, model, {.every = -3}};
  });
  CHECK(texts.size() == 2);
  for (auto const& text : texts) check_contains(text, "DiLoCoConfig::every: must be at least 1 (got -3)");
}

TEST_CASE("ranks with other settings, or in another round, are told so, all of them, with both") {
  auto texts = failures_of(3, [](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    DiLoCo const outer{ctx, model, {.lr = ctx.world_rank() == Rank{1} ? 0.5 : 0.7}};
  });
  CHECK(texts.size() == 3);
  for (auto const& text : texts) {
    check_contains(text,
                   "DiLoCo: rank 0 has model 1 with every 50, lr 0.7, momentum 0.9, and rank 1 has model 1 with "
                   "every 50, lr 0.5, momentum 0.9; make it on every rank with the same model and settings");
  }
  texts = failures_of(2, [](TorchContext& ctx) {
    auto first = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    auto second = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    DiLoCo of_first{ctx, first, {.every = 1}};
    DiLoCo of_second{ctx, second, {.every = 1}};
    (ctx.world_rank() == Rank{0} ? of_first : of_second).step();
  });
  CHECK(texts.size() == 2);
  for (auto const& text : texts) {
    check_contains(text, "an outer step of DiLoCo: rank 0 has round 1 of model 1, and rank 1 has round 1 of model 2");
  }
}

TEST_CASE("all workers begin with rank 0's parameters as the global ones, whatever theirs were") {
  run_once({.workers = 3}, [](TorchContext& ctx) {
    auto const fill = [rank = ctx.world_rank().value](torch::nn::Linear const& linear, double value) {
      torch::NoGradGuard const no_grad;
      linear->weight.fill_(value + rank);
    };
    auto model = ctx.prepare_local_model([] { return torch::nn::Linear{1, 1}; });
    fill(model, 1);
    DiLoCo outer{ctx, model, {.every = 1, .lr = 1, .momentum = 0}};
    CHECK(model->weight.item<double>() == 1);
    fill(model, 5);  // the mean is 6
    outer.step();
    CHECK(model->weight.item<double>() == 6);
    fill(model, 10);
    outer.begin_from_model();
    CHECK(model->weight.item<double>() == 10);
    outer.step();
    CHECK(model->weight.item<double>() == 10);
  });
}

TEST_CASE("a rank that begins another DiLoCo anew is told so, with the others") {
  auto const texts = failures_of(2, [](TorchContext& ctx) {
    auto first = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    auto second = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    DiLoCo of_first{ctx, first};
    DiLoCo of_second{ctx, second};
    (ctx.world_rank() == Rank{0} ? of_first : of_second).begin_from_model();
  });
  CHECK(texts.size() == 2);
  for (auto const& text : texts) {
    check_contains(text, "beginning a DiLoCo anew: rank 0 has model 1, and rank 1 has model 2");
  }
}

TEST_CASE("a model without parameters, and a file that is no DiLoCo's, are refused") {
  auto const texts = failures_of(1, [](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] { return torch::nn::ReLU{}; });
    DiLoCo const outer{ctx, model};
  });
  REQUIRE(texts.size() == 1);
  check_contains(texts[0], "DiLoCo: the model has no parameters; train a model of floating-point parameters");

  run_once({.workers = 1}, [](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    DiLoCo outer{ctx, model};
    Stored const stored{model, outer};
    CHECK(stored.names() == "diloco.safetensors model.safetensors ");
    check_contains(thrown_error([&] { return outer.load_from(stored.checkpoint(), "model.safetensors"); }),
                   "corrupt_checkpoint: loading ");
  });
}
