// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/local_model.hpp>

#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/core/identifiers.hpp>

#include "../support/thrown_error.hpp"
#include "local_training.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// Tensors of whatever type a model can have.
struct ManyTypesImpl : torch::nn::Module {
  torch::Tensor single = register_parameter("single", torch::zeros({3, 2}));
  torch::Tensor twice = register_parameter("twice", torch::zeros({5}, torch::kDouble));
  torch::Tensor brief = register_parameter("brief", torch::zeros({7}, torch::kBFloat16));
  torch::Tensor mean = register_buffer("mean", torch::zeros({2}));
  torch::Tensor wave = register_buffer("wave", torch::zeros({2}, torch::kComplexFloat));
  torch::Tensor count = register_buffer("count", torch::zeros({}, torch::kLong));
};
TORCH_MODULE(ManyTypes);

/// All of them, other ones on each rank.
void set_own(ManyTypes& model, std::uint32_t rank) {
  torch::NoGradGuard const no_grad;
  auto generator = at::detail::createCPUGenerator(7 + rank);
  for (auto& tensor : {model->single, model->twice, model->brief, model->mean}) {
    auto own = tensor;
    own.copy_(torch::randn(tensor.sizes(), generator));
  }
  torch::view_as_real(model->wave).copy_(torch::randn({2, 2}, generator));
  model->count.fill_(10.0 * (rank + 1));
}

/// The mean of tensors in their order, by LibTorch, and rounded once.
auto mean_of(Tensors const& tensors) -> torch::Tensor {
  auto const type = tensors[0].scalar_type();
  auto const computed = type == torch::kBFloat16 ? torch::kFloat : type;
  auto sum = tensors[0].to(computed);
  for (std::size_t i = 1; i < tensors.size(); ++i) sum = sum + tensors[i].to(computed);
  // A LibTorch may divide complex numbers, and by a scalar, with another rounding.
  auto const numbers = sum.is_complex() ? torch::view_as_real(sum) : sum;
  auto const mean = numbers / torch::full_like(numbers, static_cast<double>(tensors.size()));
  return sum.is_complex() ? torch::view_as_complex(mean) : mean.to(type);
}

/// What `workers` leave after `steps` steps of local SGD that goes on in `folder`; the parameters and the optimizer's
/// moments at the end.
struct LocalRun {
  int workers = 3;
  int steps = 11;
};
auto local_sgd(LocalRun const& run, std::filesystem::path const& folder, ByRank& left) -> Result {
  return run_in(folder, {.workers = run.workers}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] {
      return torch::nn::Sequential{torch::nn::Linear{4, 5}, torch::nn::BatchNorm1d{5}, torch::nn::Linear{5, 2}};
    });
    torch::optim::Adam optimizer{model->parameters(), 0.05};
    int steps = 0;
    TrainingState state{model, optimizer, {"steps", steps}};
    (void)ctx.restore(state);
    while (steps < run.steps) {
      optimizer.zero_grad();
      loss_of_own_batch(model, ctx.world_rank().value, steps).backward();
      optimizer.step();
      if (++steps % 4 == 0) ctx.average_parameters(model);
      ctx.report(Epoch{steps, 1.0}, save(state));
    }
    auto tensors = model->parameters();
    for (auto const& buffer : model->buffers()) tensors.push_back(buffer);
    for (auto const& each : raytrain::detail::optimizer_state(optimizer).value().tensors)
      tensors.push_back(each.tensor);
    left.put(ctx, tensors);
  });
}

}  // namespace

TEST_CASE("averaged parameters and buffers are the mean in rank order, on every worker, and counts are rank 0's") {
  for (std::uint32_t const workers : {1U, 2U, 3U, 4U}) {
    CAPTURE(workers);
    ByRank averaged;
    run_once({.workers = static_cast<int>(workers)}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_local_model([] { return ManyTypes{}; });
      set_own(model, ctx.world_rank().value);
      ctx.average_parameters(model);
      auto tensors = model->parameters();
      for (auto const& buffer : model->buffers()) tensors.push_back(buffer);
      averaged.put(ctx, tensors);
    });
    std::vector<Tensors> own;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      ManyTypes model;
      set_own(model, rank);
      own.push_back({model->single, model->twice, model->brief, model->mean, model->wave, model->count});
    }
    Tensors expected;
    for (std::size_t i = 0; i < 5; ++i) {
      Tensors of_ranks;
      for (auto const& tensors : own) of_ranks.push_back(tensors[i]);
      expected.push_back(mean_of(of_ranks));
    }
    expected.push_back(own[0][5]);
    for (auto const& tensors : averaged.all()) CHECK(same_bits(tensors, expected));
  }
}

TEST_CASE("a local model begins with rank 0's parameters, and its gradients are the worker's alone") {
  run_once({.workers = 3}, [](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_local_model([&] {
      auto linear = std::make_shared<torch::nn::LinearImpl>(4, 2);
      torch::NoGradGuard const no_grad;
      linear->weight.fill_(rank + 1.0);
      return linear;
    });
    CHECK(model->weight[0][0].item<double>() == 1);
    loss_of_own_batch(model, rank, 0).backward();
    torch::nn::Linear alone{4, 2};
    torch::NoGradGuard const no_grad;
    alone->weight.copy_(model->weight);
    alone->bias.copy_(model->bias);
    torch::AutoGradMode const with_gradients{true};
    loss_of_own_batch(alone, rank, 0).backward();
    CHECK(torch::equal(model->weight.grad(), alone->weight.grad()));
  });
}

TEST_CASE("a model that was prepared to be averaged trains locally when it is prepared so, and the reverse") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto const gradient_of_rank = [&](auto& model) {
      model->zero_grad();
      (model->weight * (ctx.world_rank().value + 1.0)).sum().backward();
      return model->weight.grad()[0][0].template item<double>();
    };
    auto averaged = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
    CHECK(gradient_of_rank(averaged) == 1.5);
    auto local = ctx.prepare_local_model(averaged);
    CHECK(gradient_of_rank(local) == ctx.world_rank().value + 1.0);
    auto again = ctx.prepare_model(averaged);
    CHECK(gradient_of_rank(again) == 1.5);
  });
}

TEST_CASE("a local model that is prepared to be averaged is none any more, and one that is prepared twice is one") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto local = ctx.prepare_local_model([] { return torch::nn::Linear{2, 1}; });
    auto local_again = ctx.prepare_local_model(local);
    static_assert(std::same_as<decltype(local_again), decltype(local)>);
    auto averaged = ctx.prepare_model(local_again);
    static_assert(std::same_as<decltype(averaged), torch::nn::Linear>);
    (averaged->weight * (ctx.world_rank().value + 1.0)).sum().backward();
    CHECK(local->weight.grad()[0][0].item<double>() == 1.5);
  });
}

TEST_CASE("local SGD has the bits of as many models that one thread trains and averages by hand") {
  constexpr std::uint32_t workers = 3;
  constexpr int steps = 10;
  ByRank trained;
  Tensors first;
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_local_model([] { return torch::nn::Linear{4, 2}; });
    if (ctx.world_rank() == Rank{0}) first = copies(model->parameters());
    torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      loss_of_own_batch(model, ctx.world_rank().value, step).backward();
      optimizer.step();
      if ((step + 1) % 4 == 0) ctx.average_parameters(model);
    }
    trained.put(ctx, model->parameters());
  });

  std::vector<torch::nn::Linear> models;
  std::vector<torch::optim::SGD> optimizers;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    torch::NoGradGuard const no_grad;
    models.emplace_back(4, 2);
    models.back()->weight.copy_(first[0]);
    models.back()->bias.copy_(first[1]);
    optimizers.emplace_back(models.back()->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9));
  }
  for (int step = 0; step < steps; ++step) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      optimizers[rank].zero_grad();
      loss_of_own_batch(models[rank], rank, step).backward();
      optimizers[rank].step();
    }
    if ((step + 1) % 4 != 0) continue;
    torch::NoGradGuard const no_grad;
    auto const weight = mean_of({models[0]->weight, models[1]->weight, models[2]->weight});
    auto const bias = mean_of({models[0]->bias, models[1]->bias, models[2]->bias});
    for (auto& model : models) {
      model->weight.copy_(weight);
      model->bias.copy_(bias);
    }
  }
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    CHECK(same_bits(trained.all()[rank], models[rank]->parameters()));
  }
  CHECK_FALSE(same_bits(trained.all()[0], trained.all()[1]));  // two steps behind the last average
}

TEST_CASE("a local training that was ended between two averages goes on to the bits of an undisturbed one") {
  TemporaryFolder const whole;
  ByRank expected;
  local_sgd({}, whole.path(), expected);
  CHECK_FALSE(same_bits(expected.all()[0], expected.all()[1]));
  for (int const ended : {4, 6}) {
    CAPTURE(ended);
    TemporaryFolder const folder;
    ByRank unused;
    local_sgd({.steps = ended}, folder.path(), unused);
    ByRank left;
    auto const result = local_sgd({}, folder.path(), left);
    CHECK(warnings_with(result, "was another one on each") == 0);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(same_bits(left.all()[rank], expected.all()[rank]));
  }
}

TEST_CASE("with another number of workers all go on with rank 0's model, and a warning says what was lost") {
  TemporaryFolder const folder;
  ByRank before;
  auto const stored = local_sgd({.workers = 3, .steps = 6}, folder.path(), before);
  torch::nn::Sequential of_rank_0{torch::nn::Linear{4, 5}, torch::nn::BatchNorm1d{5}, torch::nn::Linear{5, 2}};
  load(stored.checkpoint().value(), of_rank_0);
  CHECK(same_bits(of_rank_0->parameters(), {before.all()[0].begin(), before.all()[0].begin() + 6}));

  ByRank after;
  auto const result = local_sgd({.workers = 2, .steps = 6}, folder.path(), after);
  for (auto const& tensors : after.all()) CHECK(same_bits(tensors, before.all()[0]));
  CHECK(warnings_with(result,
                      "model 'model' was another one on each of the 3 workers that saved it; all begin with rank "
                      "0's") == 1);
  CHECK(warnings_with(result, "optimizer 'optimizer' was another one on each of the 3 workers") == 1);
}

TEST_CASE("a SyncBatchNorm of a model that becomes local normalises over the worker's own batch") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto const averaged = ctx.prepare_model([] { return SyncBatchNorm{1}; });
    auto local = ctx.prepare_local_model(averaged);
    if (ctx.world_rank() == Rank{1}) return;  // alone, rank 0 would wait for it, or be told that it has ended
    auto const x = torch::tensor({{1.0F}, {3.0F}});
    CHECK(torch::equal(local->forward(x), torch::nn::BatchNorm1d{1}(x)));
  });
}

TEST_CASE("a sharded optimizer does not step a model that has become local, and steps it again when that is averaged") {
  for (int const workers : {1, 2}) {
    CAPTURE(workers);
    run_once({.workers = workers}, [](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{4, 2}; });
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {0.05});
      auto const local = ctx.prepare_local_model(model);
      loss_of_own_batch(model, ctx.world_rank().value, 0).backward();
      auto const before = copies(model->parameters());
      CHECK(thrown_error([&] { optimizer.step(); }) ==
            "invalid_call: a step of a sharded optimizer: its model has become a local one, which each worker trains "
            "by itself; make an optimizer for it on each worker: torch::optim::Adam "
            "optimizer{model->parameters(), 1e-3}");
      CHECK(same_bits(model->parameters(), before));
      model = ctx.prepare_model(model);
      optimizer.zero_grad();
      loss_of_own_batch(model, ctx.world_rank().value, 0).backward();
      optimizer.step();
      CHECK_FALSE(same_bits(model->parameters(), before));
    });
  }
}

TEST_CASE("a local model that is const is kept for each worker, as any") {
  TemporaryFolder const folder;
  ByRank left;
  auto const train = [&](bool is_first) {
    run_in(folder.path(), {.workers = 2}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_local_model([] { return torch::nn::Linear{1, 1}; });
      int steps = 0;
      TrainingState state{model, {"steps", steps}};
      (void)ctx.restore(state);
      if (is_first) {
        torch::NoGradGuard const no_grad;
        model->weight.fill_(ctx.world_rank().value + 1.0);
        ctx.report(Epoch{0, 1.0}, save(state));
      }
      left.put(ctx, {model->weight});
    });
  };
  train(true);
  train(false);
  CHECK(left.all()[0][0].item<double>() == 1);
  CHECK(left.all()[1][0].item<double>() == 2);
}

TEST_CASE("samples and backwards of a local model count in step_times, whatever it was before") {
  for (int const workers : {1, 2}) {
    for (bool const was_averaged : {false, true}) {
      CAPTURE(workers);
      CAPTURE(was_averaged);
      run_once({.workers = workers, .datasets = {{"train", small_images(32)}}}, [&](TorchContext& ctx) {
        auto const train = [&](auto& model) {
          for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 8})) {
            model->forward(batch["image"].flatten(1).to(torch::kFloat)).sum().backward();
          }
          return ctx.step_times();
        };
        auto averaged = ctx.prepare_model([] { return torch::nn::Linear{64, 1}; });
        auto local = was_averaged ? ctx.prepare_local_model(averaged) : ctx.prepare_local_model([] {
          return torch::nn::Linear{64, 1};
        });
        auto const preparing_s = ctx.step_times().exchange_s;
        auto const times = train(local);
        CHECK(times.samples_per_s > 0);
        CHECK(times.backward_s > 0);
        CHECK(times.exchange_s == preparing_s);
      });
    }
  }
}

namespace {

/// A scaler and an average that differ between workers, before a checkpoint and when they go on from it.
struct OwnParts {
  std::vector<double> scales = std::vector<double>(2);
  std::vector<double> averages = std::vector<double>(2);
};
auto parts_after(std::filesystem::path const& folder, bool is_first, int workers, OwnParts& left) -> Result {
  return run_in(folder, {.workers = workers}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_local_model([] { return torch::nn::Linear{1, 1}; });
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    GradScaler scaler{Precision::fp16, {.init_scale = 8}};
    AveragedModel average{model, {.decay = 0.5}};
    ExponentialDecay schedule{optimizer, {.gamma = 0.5}};
    TrainingState state{model, optimizer, scaler, average, schedule};
    (void)ctx.restore(state);
    if (is_first) {
      // Rank 1 has a gradient that is not finite.
      auto const factor = rank == 1 ? std::numeric_limits<double>::infinity() : 1.0;
      scaler.scale(model->weight.sum() * factor).backward();
      scaler.step(optimizer);
      scaler.update();
      torch::NoGradGuard const no_grad;
      model->weight.fill_(rank + 1.0);
      average.update();
      ctx.report(Epoch{0, 1.0}, save(state));
    }
    auto const in_place = average.put_in_place();
    left.scales.at(rank) = scaler.loss_scale();
    left.averages.at(rank) = model->weight.item<double>();
  });
}

}  // namespace

TEST_CASE("beside a local model each worker's scaler and averaged model go on as they were on it") {
  TemporaryFolder const folder;
  OwnParts left;
  parts_after(folder.path(), true, 2, left);
  CHECK(left.scales == std::vector<double>{8, 4});
  CHECK(left.averages == std::vector<double>{1, 2});

  OwnParts again;
  auto const same = parts_after(folder.path(), false, 2, again);
  CHECK(again.scales == left.scales);
  CHECK(again.averages == left.averages);
  CHECK(warnings_with(same, "was another one") == 0);

  OwnParts alone;
  auto const result = parts_after(folder.path(), false, 1, alone);
  CHECK(alone.scales[0] == 8);
  CHECK(alone.averages[0] == 1);
  CHECK(warnings_with(result, "'grad_scaler' was another one on each of the 2 workers that saved it") == 1);
  CHECK(warnings_with(result, "'averaged_model' was another one on each of the 2 workers that saved it") == 1);
  CHECK(warnings_with(result, "schedule' was another one") == 0);
}

TEST_CASE(
    "who begins with the local models of another run, or makes them averaged ones, is told that they are rank 0's") {
  TemporaryFolder const base;
  ByRank before;
  auto const stored = local_sgd({.workers = 2, .steps = 6}, base.path(), before);
  for (bool const is_local : {false, true}) {
    CAPTURE(is_local);
    ByRank after;
    auto const result = run_once({.workers = 2, .begins_with = stored.checkpoint().value()}, [&](TorchContext& ctx) {
      auto const make = [] {
        return torch::nn::Sequential{torch::nn::Linear{4, 5}, torch::nn::BatchNorm1d{5}, torch::nn::Linear{5, 2}};
      };
      auto averaged = ctx.prepare_model(make);
      auto local = ctx.prepare_local_model(make);
      CHECK((is_local ? ctx.restore(local) : ctx.restore(averaged)) == 0);
      after.put(ctx, is_local ? local->parameters() : averaged->parameters());
    });
    for (auto const& tensors : after.all()) {
      CHECK(same_bits(tensors, {before.all()[0].begin(), before.all()[0].begin() + 6}));
    }
    CHECK(warnings_with(result,
                        "model 'model' was another one on each of the 2 workers that saved it; all begin with rank "
                        "0's") == 1);
  }
  ByRank unused;
  auto const averaged = local_sgd({.workers = 2, .steps = 8}, base.path(), unused);
  auto const result = run_once({.workers = 2, .begins_with = averaged.checkpoint().value()}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{4, 5}, torch::nn::BatchNorm1d{5}, torch::nn::Linear{5, 2}};
    });
    CHECK(ctx.restore(model) == 0);
  });
  CHECK(warnings_with(result, "was another one") == 0);
}

TEST_CASE("ranks that average different models are told so, all of them, with both") {
  auto const texts = failures_of(3, [](TorchContext& ctx) {
    auto first = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    auto second = ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
    ctx.average_parameters(ctx.world_rank() == Rank{2} ? second : first);
  });
  CHECK(texts.size() == 3);
  for (auto const& text : texts) {
    check_contains(text,
                   "averaging the parameters of local models: rank 0 has model 1, and rank 2 has model 2; "
                   "average the same models in the same order on every rank");
  }
}

TEST_CASE("a local model is refused in a run of virtual shards") {
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                  (void)ctx.prepare_local_model([] { return torch::nn::Linear{2, 2}; });
                                },
                                {.scaling = {.num_workers = 2, .virtual_shards = 4},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
  CHECK_THROWS_WITH_AS(trainer.fit(), doctest::Contains("the run has 4 virtual shards, whose gradients are averaged"),
                       TrainingFailed);
}
