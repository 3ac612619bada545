// SPDX-License-Identifier: Apache-2.0
// What comes between an exchange of gradients and the backward that it goes on beside.
#include <raytrain/backend/torch/detail/backward_exchange.hpp>
#include <raytrain/backend/torch/model_options.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/train/result.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;

namespace {

using namespace raytrain;

/// A layer in the middle is of one rank alone. Its normalisation calls the other ranks within a backward.
struct NormedImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{6, 12});
  torch::nn::Linear second = register_module("second", torch::nn::Linear{12, 12});
  SyncBatchNorm norm = register_module("norm", SyncBatchNorm{12});
  torch::nn::Linear of_one = register_module("of_one", torch::nn::Linear{12, 12});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{12, 1});
  torch::Tensor none = register_parameter("none", torch::zeros({0}, torch::kDouble));

  auto forward(torch::Tensor x, Rank rank) -> torch::Tensor {
    x = norm(second(torch::tanh(first(x))));
    if (rank == Rank{1}) x = x + of_one(x);
    return last(x).pow(2).mean() + none.sum().to(torch::kFloat);
  }
};
TORCH_MODULE(Normed);

auto inputs_of(Rank rank, int step) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(100 * static_cast<std::uint64_t>(step) + rank.value);
  return torch::randn({5, 6}, generator);
}

auto with(Overlap overlap, std::size_t bucket_bytes = 1) -> ModelOptions {
  return {.bucket_bytes = bucket_bytes, .overlap = overlap};
}

/// A backward that ends as it comes to the first layer.
void fail_backward(std::function<torch::Tensor()> const& loss, torch::Tensor const& where) {
  auto const hook = where.register_hook([](torch::Tensor const&) { throw std::runtime_error{"on purpose"}; });
  CHECK_THROWS_WITH_AS(loss().backward(), doctest::Contains("on purpose"), std::runtime_error);
  where.remove_hook(hook);
}

/// The texts of a run's failures; empty when it has none.
auto failures_of(int workers, TrainTorch const& train) -> std::string {
  try {
    run_once({.workers = workers}, train);
  } catch (TrainingFailed const& failed) {
    std::string texts;
    for (auto const& failure : failed.failures()) texts += failure.text() + '\n';
    return texts;
  }
  return {};
}

}  // namespace

TEST_CASE("a model whose backward failed with other gradients on their way on each rank is prepared again") {
  // The buckets of rank 0 wait for a layer that it does not use, when those of rank 1 are on their way.
  run_once({}, [](TorchContext& ctx) {
    auto const rank = ctx.world_rank();
    auto model = ctx.prepare_model([] { return Normed{}; }, with(Overlap::on));
    fail_backward([&] { return model(inputs_of(rank, 0), rank); }, model->first->weight);
    model = ctx.prepare_model(model, with(Overlap::on));
    model->zero_grad();
    model(inputs_of(rank, 1), rank).backward();
    CHECK(model->of_one->weight.grad().defined());
  });
}

TEST_CASE("a function that goes over a backward that failed with gradients on their way ends") {
  run_once({}, [](TorchContext& ctx) {
    auto const rank = ctx.world_rank();
    auto model = ctx.prepare_model([] { return Normed{}; }, with(Overlap::on));
    fail_backward([&] { return model(inputs_of(rank, 0), rank); }, model->first->weight);
  });
}

TEST_CASE("a rank whose backward fails with gradients on their way ends others that run none") {
  check_contains(
      failures_of(2,
                  [](TorchContext& ctx) {
                    auto const rank = ctx.world_rank();
                    auto model = ctx.prepare_model(
                        [] {
                          return torch::nn::Sequential{torch::nn::Linear{6, 6}, torch::nn::Linear{6, 1}};
                        },
                        with(Overlap::on));
                    if (rank == Rank{0}) return ctx.collective().barrier();
                    auto const first = model->parameters().front();
                    first.register_hook([](torch::Tensor const&) { throw std::runtime_error{"on purpose"}; });
                    model->forward(inputs_of(rank, 0)).sum().backward();
                  }),
      "on purpose");
}

TEST_CASE("a model is prepared, with an exchange during its backwards, within the making of another one") {
  run_once({}, [](TorchContext& ctx) {
    (void)ctx.prepare_model([&] {
      auto inner = ctx.prepare_model([] { return torch::nn::Linear{6, 1}; }, with(Overlap::on));
      inner(inputs_of(ctx.world_rank(), 0)).sum().backward();
      return torch::nn::Linear{6, 1};
    });
  });
}
