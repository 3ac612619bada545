// SPDX-License-Identifier: Apache-2.0
// Gradients of a model that are combined by adaptive summation.
#include <raytrain/backend/torch/gradient_exchange.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/identifiers.hpp>

#include "torch_run.hpp"

namespace {

using namespace raytrain;

/// Parameters of both types, whose gradients are the inputs.
struct ThreeImpl : torch::nn::Module {
  torch::Tensor a = register_parameter("a", torch::zeros({300}));
  torch::Tensor b = register_parameter("b", torch::zeros({7, 11}));
  torch::Tensor c = register_parameter("c", torch::zeros({50}, torch::kDouble));
  torch::Tensor none = register_parameter("none", torch::zeros({0}));

  auto forward(Tensors const& x) -> torch::Tensor {
    return (a * x[0]).sum().to(torch::kDouble) + (b * x[1]).sum().to(torch::kDouble) + (c * x[2]).sum() + none.sum();
  }
};
TORCH_MODULE(Three);

auto gradients_of_rank(std::uint32_t rank) -> Tensors {
  auto generator = at::detail::createCPUGenerator(3 + rank);
  return {torch::randn({300}, generator) + 0.5, torch::randn({7, 11}, generator) - 1,
          torch::randn({50}, generator, torch::kDouble)};
}

/// The formula, in double.
auto combined(torch::Tensor const& left, torch::Tensor const& right) -> torch::Tensor {
  auto const a = left.to(torch::kDouble), b = right.to(torch::kDouble);
  auto const product = (a * b).sum();
  return (1 - product / (2 * (a * a).sum())) * a + (1 - product / (2 * (b * b).sum())) * b;
}

auto trained_gradients(int workers, ModelOptions options) -> std::vector<Tensors> {
  std::vector<Tensors> gradients(static_cast<std::size_t>(workers));
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto mine = options;
    mine.exchange = adaptive_sum();
    auto model = ctx.prepare_model([] { return Three{}; }, mine);
    auto const rank = ctx.world_rank().value;
    model(gradients_of_rank(rank)).backward();
    gradients[rank] = copies({model->a.grad(), model->b.grad(), model->c.grad()});
  });
  return gradients;
}

}  // namespace

TEST_CASE(
    "each parameter's gradients are combined by the formula of adaptive summation, in any buckets and overlapped") {
  auto const whole = trained_gradients(3, {});
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    auto const of_pair = combined(gradients_of_rank(0)[i], gradients_of_rank(1)[i]);
    auto const expected = combined(of_pair, gradients_of_rank(2)[i]);
    CHECK(torch::allclose(whole[0][i].to(torch::kDouble), expected, 1e-5, 1e-6));
  }
  for (auto const& options : {ModelOptions{.bucket_bytes = 1}, ModelOptions{.bucket_bytes = 1 << 20},
                              ModelOptions{.bucket_bytes = 1, .overlap = Overlap::on}}) {
    for (auto const& gradients : trained_gradients(3, options)) CHECK(same_bits(gradients, whole[0]));
  }
}

TEST_CASE("gradients of two backwards of a step are combined each by itself, and add up") {
  for (auto const overlap : {Overlap::off, Overlap::on}) {
    std::vector<Tensors> sums(2);
    run_once({.workers = 2}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Three{}; }, {.exchange = adaptive_sum(), .overlap = overlap});
      auto const rank = ctx.world_rank().value;
      model(gradients_of_rank(rank)).backward();
      model(gradients_of_rank(2 + rank)).backward();
      sums[rank] = copies({model->a.grad(), model->b.grad(), model->c.grad()});
    });
    CHECK(same_bits(sums[0], sums[1]));
    for (std::size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      auto const expected = combined(gradients_of_rank(0)[i], gradients_of_rank(1)[i]) +
                            combined(gradients_of_rank(2)[i], gradients_of_rank(3)[i]);
      CHECK(torch::allclose(sums[0][i].to(torch::kDouble), expected, 1e-5, 1e-6));
    }
  }
}

TEST_CASE("one worker's gradients are its own, bit by bit, by adaptive summation") {
  CHECK(same_bits(trained_gradients(1, {})[0], gradients_of_rank(0)));
}

TEST_CASE("a worker without a batch leaves the others' adaptive sum as it is") {
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Three{}; }, {.exchange = adaptive_sum()});
    bool const has_batch = ctx.world_rank() == Rank{0};
    CHECK(ctx.join(has_batch));
    has_batch ? model(gradients_of_rank(0)).backward() : ctx.shadow_backward(model);
    CHECK(same_bits({model->a.grad(), model->b.grad(), model->c.grad()}, gradients_of_rank(0)));
    CHECK(!ctx.join(false));
  });
}
