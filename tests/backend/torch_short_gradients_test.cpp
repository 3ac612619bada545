// SPDX-License-Identifier: Apache-2.0
// Models whose parameters have 16 bits: their gradients are averaged in float and rounded.
#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "torch_run.hpp"

using namespace raytrain;

namespace {

constexpr std::array short_types{at::kBFloat16, at::kHalf};

/// `scale` times a weight: its gradient is `scale`.
struct WeightsImpl : torch::nn::Module {
  explicit WeightsImpl(at::ScalarType type, at::IntArrayRef sizes = {16, 8})
      : w{register_parameter("w", torch::ones(sizes, type))} {}
  auto forward(torch::Tensor const& scale) -> torch::Tensor { return (w * scale.to(w.device(), w.dtype())).sum(); }
  torch::Tensor w;
};
TORCH_MODULE(Weights);

/// Numbers that 16 bits round, other ones on each rank, of which the average is rounded, too.
auto numbers_of(std::size_t rank, at::IntArrayRef sizes = {16, 8}) -> torch::Tensor {
  auto const count = c10::multiply_integers(sizes);
  return torch::arange(1, count + 1).to(torch::kFloat).mul(0.37 + static_cast<double>(rank)).reciprocal().view(sizes);
}

auto mean_in_float(at::ScalarType type, std::size_t workers) -> torch::Tensor {
  auto sum = torch::zeros({16, 8});
  for (std::size_t rank = 0; rank < workers; ++rank) sum += numbers_of(rank).to(type).to(torch::kFloat);
  return (sum / static_cast<std::int64_t>(workers)).to(type);
}

/// The gradients of each rank.
auto gradients_of(
    at::ScalarType type, int workers, ModelOptions (*options)() = [] { return ModelOptions{}; }) -> Tensors {
  Tensors gradients(static_cast<std::size_t>(workers));
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model(Weights{type}, options());
    model(numbers_of(ctx.world_rank().value)).backward();
    gradients[ctx.world_rank().value] = model->w.grad().cpu().clone();
  });
  return gradients;
}

/// What rank 0's parameters are after four steps of SGD.
template <class Step>
auto trained(at::ScalarType type, int batches, Step const& make_step) -> torch::Tensor {
  torch::Tensor reached;
  auto const result = run_once({.workers = 2, .datasets = {{"train", small_images(64)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model(Weights{type});
    auto const step = make_step(ctx, model);
    for ([[maybe_unused]] auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 8})) {
      auto const is_last = ctx.accumulate(batches);
      model->zero_grad();
      model(numbers_of(ctx.world_rank().value)).backward();
      if (is_last) step();
    }
    if (ctx.world_rank() == Rank{0}) reached = model->w.detach().cpu().clone();
  });
  CHECK(warnings_with(result, "not the same on every rank") == 0);
  return reached;
}

auto whole_sgd(TorchContext& /*ctx*/, Weights& model) {
  auto const optimizer = std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions{0.125});
  return [=] { optimizer->step(); };
}

auto sharded_sgd(TorchContext& ctx, Weights& model) {
  auto const optimizer = std::make_shared<ShardedOptimizer>(ctx.prepare_optimizer<torch::optim::SGD>(model, {0.125}));
  return [=] { optimizer->step(); };
}

}  // namespace

TEST_CASE("gradients of 16 bits are the average in float, rounded, with the same bits on every rank") {
  for (auto const type : short_types) {
    for (auto const workers : {2, 3}) {
      CAPTURE(c10::toString(type));
      CAPTURE(workers);
      auto const expected = mean_in_float(type, static_cast<std::size_t>(workers));
      for (auto const& gradient : gradients_of(type, workers)) {
        CHECK(gradient.dtype() == type);
        CHECK(torch::equal(gradient, expected));
      }
    }
  }
}

TEST_CASE("gradients of 16 bits that are exchanged during the backward have the bits of those that are not") {
  for (auto const type : short_types) {
    CAPTURE(c10::toString(type));
    auto const overlapped =
        gradients_of(type, 3, [] { return ModelOptions{.bucket_bytes = 1, .overlap = Overlap::on}; });
    CHECK(torch::equal(overlapped[0], mean_in_float(type, 3)));
    CHECK(same_bits({overlapped[1], overlapped[2]}, {overlapped[0], overlapped[0]}));
  }
}

TEST_CASE("an average of fp16 does not overflow where the sum of its numbers does") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model(Weights{at::kHalf});
    model(torch::full({16, 8}, 60000)).backward();
    CHECK(torch::equal(model->w.grad().cpu(), torch::full({16, 8}, 60000, torch::kHalf)));
  });
}

TEST_CASE("a model may have parameters of 16, 32 and 64 bits, and one that no rank uses gets no gradient") {
  struct Mixed : torch::nn::Module {
    torch::Tensor brain = register_parameter("brain", torch::zeros({3}, torch::kBFloat16));
    torch::Tensor single = register_parameter("single", torch::zeros({3}));
    torch::Tensor half = register_parameter("half", torch::zeros({3}, torch::kHalf));
    torch::Tensor twice = register_parameter("twice", torch::zeros({3}, torch::kDouble));
    torch::Tensor of_rank_1 = register_parameter("of_rank_1", torch::zeros({3}, torch::kBFloat16));
    torch::Tensor unused = register_parameter("unused", torch::zeros({3}, torch::kBFloat16));
  };
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Mixed{}; });
    auto const rank = ctx.world_rank().value;
    auto loss = model->brain.sum() * (rank + 1.0) + model->single.sum() * (rank + 2.0) +
                model->half.sum() * (rank + 3.0) + model->twice.sum() * (rank + 4.0);
    if (rank == 1) loss = loss + model->of_rank_1.sum();
    loss.backward();
    auto const check = [](torch::Tensor const& parameter, double expected) {
      CHECK(torch::equal(parameter.grad().cpu(), torch::full({3}, expected, parameter.scalar_type())));
    };
    check(model->brain, 1.5);
    check(model->single, 2.5);
    check(model->half, 3.5);
    check(model->twice, 4.5);
    check(model->of_rank_1, 0.5);
    CHECK_FALSE(model->unused.grad().defined());
  });
}

TEST_CASE("a worker alone accumulates gradients of 16 bits, as it averages none of them") {
  run_once({.workers = 1, .datasets = {{"train", small_images(8)}}}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model(Weights{at::kBFloat16});
    std::int64_t scale = 1;
    for ([[maybe_unused]] auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 4})) {
      (void)ctx.accumulate(2);
      model(torch::full({16, 8}, scale)).backward();
      scale += 2;
    }
    CHECK(torch::equal(model->w.grad().cpu(), torch::full({16, 8}, 2, torch::kBFloat16)));
  });
}

TEST_CASE("a sharded optimizer steps parameters of 16 bits as the whole one does") {
  for (auto const type : short_types) {
    for (auto const batches : {1, 2}) {
      CAPTURE(c10::toString(type));
      CAPTURE(batches);
      auto const whole = trained(type, batches, whole_sgd);
      CHECK_FALSE(torch::equal(whole, torch::ones({16, 8}, type)));
      CHECK(torch::equal(trained(type, batches, sharded_sgd), whole));
    }
  }
}

TEST_CASE("gradients of 16 bits are clipped by the same norm on every rank") {
  std::array<double, 2> norms{};
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model(Weights{at::kBFloat16});
    model(numbers_of(ctx.world_rank().value)).backward();
    norms[ctx.world_rank().value] = torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    CHECK(model->w.grad().to(torch::kFloat).norm().item<double>() == doctest::Approx(0.5).epsilon(0.01));
  });
  CHECK(norms[0] == norms[1]);
  CHECK(norms[0] ==
        doctest::Approx(mean_in_float(at::kBFloat16, 2).to(torch::kFloat).norm().item<double>()).epsilon(0.01));
}

TEST_CASE("an exchange of gradients of 16 bits does what it does in float, and rounds the result") {
  auto const in_float = [](auto make_options) {
    torch::Tensor exchanged;
    run_once({.workers = 2}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model(Weights{at::kFloat}, make_options());
      model(numbers_of(ctx.world_rank().value).to(torch::kBFloat16)).backward();
      if (ctx.world_rank() == Rank{0}) exchanged = model->w.grad().cpu().clone();
    });
    return exchanged.to(torch::kBFloat16);
  };
  auto const check = [&](ModelOptions (*make_options)()) {
    auto const gradients = gradients_of(at::kBFloat16, 2, make_options);
    CHECK(torch::equal(gradients[0], in_float(make_options)));
    CHECK(torch::equal(gradients[0], gradients[1]));
  };
  check([] { return ModelOptions{.exchange = compressed(Compression::bf16)}; });
  check([] { return ModelOptions{.exchange = adaptive_sum()}; });
  check(
      [] { return ModelOptions{.exchange = std::make_shared<PowerSGD>(PowerSGDConfig{.rank = 1, .exact_steps = 0})}; });
  check(
      [] { return ModelOptions{.exchange = std::make_shared<PowerSGD>(PowerSGDConfig{.rank = 1, .exact_steps = 9})}; });
}

TEST_CASE("gradients of 16 bits are refused with virtual shards, since workers would round other sums") {
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{[](TorchContext& ctx) { (void)ctx.prepare_model(Weights{at::kBFloat16}); },
                                {.scaling = {.num_workers = 1, .virtual_shards = 2},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                 .datasets = {{"train", small_images(8)}}}};
  CHECK_THROWS_WITH_AS((void)trainer.fit(),
                       doctest::Contains("parameter 'w' is BFloat16, in a run of 2 virtual shards"), TrainingFailed);
}

TEST_CASE("a parameter of 16 bits without elements does no harm to an exchange") {
  struct Net : torch::nn::Module {
    torch::Tensor none = register_parameter("none", torch::zeros({0}, torch::kBFloat16));
    torch::Tensor w = register_parameter("w", torch::zeros({4}, torch::kBFloat16));
  };
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = adaptive_sum()});
    (model->w.sum() + model->none.sum()).backward();
    CHECK(model->w.grad().defined());
  });
}
