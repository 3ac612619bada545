// SPDX-License-Identifier: Apache-2.0
// Optimizers that LibTorch does not bring, beside their formulas in plain numbers.
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using Numbers = std::vector<double>;

/// Steps of one parameter by the formula, which keeps what it wants of it in `kept`.
using Formula = std::function<void(Numbers& x, Numbers const& gradient, std::vector<Numbers>& kept, int step)>;

auto norm_of(Numbers const& values) -> double {
  double squares = 0;
  for (auto const value : values) squares += value * value;
  return std::sqrt(squares);
}

auto numbers_of(at::Tensor const& tensor) -> Numbers {
  auto const flat = tensor.detach().reshape({-1}).to(torch::kDouble);
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

/// Trains two parameters of double, of which one has no gradient in some steps, by the optimizer and by the formula.
template <class O, class Options>
void check_formula(Options const& options, Formula const& formula) {
  torch::manual_seed(1);
  Tensors const parameters{torch::randn({3, 4}, torch::dtype(torch::kDouble).requires_grad(true)),
                           torch::randn({5}, torch::dtype(torch::kDouble).requires_grad(true))};
  O optimizer{parameters, options};
  std::vector<Numbers> expected{numbers_of(parameters[0]), numbers_of(parameters[1])};
  std::vector<std::vector<Numbers>> kept(2);
  std::vector<int> steps(2);
  for (int step = 0; step < 12; ++step) {
    for (std::size_t i = 0; i < 2; ++i) {
      parameters[i].mutable_grad() = i == 1 && step % 3 == 0 ? at::Tensor{} : torch::randn_like(parameters[i]);
      if (!parameters[i].grad().defined()) continue;
      kept[i].resize(2, Numbers(expected[i].size()));
      formula(expected[i], numbers_of(parameters[i].grad()), kept[i], ++steps[i]);
    }
    optimizer.step();
  }
  for (std::size_t i = 0; i < 2; ++i) {
    auto const found = numbers_of(parameters[i]);
    for (std::size_t j = 0; j < found.size(); ++j) CHECK(found[j] == doctest::Approx(expected[i][j]).epsilon(1e-10));
  }
}

auto adadelta(double lr, double rho, double eps, double decay) -> Formula {
  return [=](Numbers& x, Numbers const& gradient, std::vector<Numbers>& kept, int) {
    auto& squares = kept[0];
    auto& steps = kept[1];
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const g = gradient[i] + decay * x[i];
      squares[i] = rho * squares[i] + (1 - rho) * g * g;
      auto const step = std::sqrt(steps[i] + eps) / std::sqrt(squares[i] + eps) * g;
      steps[i] = rho * steps[i] + (1 - rho) * step * step;
      x[i] -= lr * step;
    }
  };
}

struct LambTerms {
  double lr, beta1, beta2, eps, decay;
  bool has_trust_ratio = true;
};

auto lamb(LambTerms const& terms) -> Formula {
  return [=](Numbers& x, Numbers const& gradient, std::vector<Numbers>& kept, int step) {
    auto& m = kept[0];
    auto& v = kept[1];
    Numbers update(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = terms.beta1 * m[i] + (1 - terms.beta1) * gradient[i];
      v[i] = terms.beta2 * v[i] + (1 - terms.beta2) * gradient[i] * gradient[i];
      auto const mean = m[i] / (1 - std::pow(terms.beta1, step));
      auto const square = v[i] / (1 - std::pow(terms.beta2, step));
      update[i] = mean / (std::sqrt(square) + terms.eps) + terms.decay * x[i];
    }
    auto const ratio = terms.has_trust_ratio ? norm_of(x) / norm_of(update) : 1;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= terms.lr * ratio * update[i];
  };
}

struct LarsTerms {
  double lr, momentum, decay, trust_coefficient;
  bool has_trust_ratio = true;
};

auto lars(LarsTerms const& terms) -> Formula {
  return [=](Numbers& x, Numbers const& gradient, std::vector<Numbers>& kept, int) {
    auto const ratio = terms.has_trust_ratio
                           ? terms.trust_coefficient * norm_of(x) / (norm_of(gradient) + terms.decay * norm_of(x))
                           : 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      kept[0][i] = terms.momentum * kept[0][i] + terms.lr * ratio * (gradient[i] + terms.decay * x[i]);
      x[i] -= kept[0][i];
    }
  };
}

/// Where an optimizer leaves a parameter of ones after a step with this gradient.
template <class O, class Options>
auto after_step(Options const& options, at::Tensor const& begin, at::Tensor const& gradient) -> at::Tensor {
  auto const parameter = begin.clone().requires_grad_();
  parameter.mutable_grad() = gradient;
  O optimizer{Tensors{parameter}, options};
  optimizer.step();
  return parameter.detach();
}

}  // namespace

TEST_CASE("Adadelta steps as its formula says") {
  check_formula<Adadelta>(AdadeltaOptions{}, adadelta(1, 0.9, 1e-6, 0));
  check_formula<Adadelta>(AdadeltaOptions{0.5}.rho(0.8).eps(1e-3).weight_decay(0.1), adadelta(0.5, 0.8, 1e-3, 0.1));
}

TEST_CASE("LAMB steps as its formula says, with and without the trust ratio") {
  check_formula<LAMB>(LAMBOptions{0.02}, lamb({0.02, 0.9, 0.999, 1e-6, 0}));
  auto const options = LAMBOptions{0.05}.betas({0.8, 0.9}).eps(1e-3).weight_decay(0.1);
  check_formula<LAMB>(options, lamb({0.05, 0.8, 0.9, 1e-3, 0.1}));
  check_formula<LAMB>(LAMBOptions{options}.trust_ratio(false), lamb({0.05, 0.8, 0.9, 1e-3, 0.1, false}));
}

TEST_CASE("LARS steps as its formula says, with and without the trust ratio") {
  check_formula<LARS>(LARSOptions{2.0}, lars({2.0, 0.9, 0, 1e-3}));
  auto const options = LARSOptions{2.0}.momentum(0.5).weight_decay(0.1).trust_coefficient(0.02);
  check_formula<LARS>(options, lars({2.0, 0.5, 0.1, 0.02}));
  check_formula<LARS>(LARSOptions{options}.lr(0.1).trust_ratio(false), lars({0.1, 0.5, 0.1, 0.02, false}));
}

TEST_CASE("a parameter of zeros, as a bias begins, takes the step as it is, and one with a gradient of zeros stays") {
  auto const zeros = torch::zeros({3});
  auto const ones = torch::ones({3});
  CHECK(torch::allclose(after_step<LAMB>(LAMBOptions{0.1}, zeros, ones), torch::full({3}, -0.1F), 1e-4));
  CHECK(torch::allclose(after_step<LARS>(LARSOptions{0.1}, zeros, ones), torch::full({3}, -0.1F), 1e-4));
  CHECK(torch::equal(after_step<LAMB>(LAMBOptions{0.1}, ones, zeros), ones));
  CHECK(torch::equal(after_step<LARS>(LARSOptions{0.1}, ones, zeros), ones));
}

TEST_CASE("norms of half-precision parameters do not overflow") {
  auto const large = torch::full({70000}, 100, torch::kBFloat16);
  CHECK(after_step<LAMB>(LAMBOptions{0.1}, large, large).isfinite().all().item<bool>());
  auto const halves = torch::full({70000}, 300, torch::kHalf);
  auto const options = LARSOptions{1.0}.momentum(0).trust_coefficient(0.5);
  CHECK(torch::allclose(after_step<LARS>(options, halves, halves).to(torch::kFloat), torch::full({70000}, 150.0F)));
}

TEST_CASE("a group's own rate and trust ratio count for its parameters alone") {
  auto const first = torch::ones({2}, torch::requires_grad());
  auto const second = torch::ones({2}, torch::requires_grad());
  first.mutable_grad() = second.mutable_grad() = torch::full({2}, 3.0F);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(Tensors{first});
  groups.emplace_back(Tensors{second}, std::make_unique<LARSOptions>(LARSOptions{0.5}.momentum(0).trust_ratio(false)));
  LARS optimizer{std::move(groups), LARSOptions{1.0}.momentum(0).trust_coefficient(0.01)};
  optimizer.step();
  CHECK(torch::allclose(first, torch::full({2}, 0.99F)));
  CHECK(torch::allclose(second, torch::full({2}, -0.5F)));

  auto const third = torch::ones({2}, torch::requires_grad());
  third.mutable_grad() = torch::full({2}, 3.0F);
  optimizer.add_param_group(
      {Tensors{third}, std::make_unique<LARSOptions>(LARSOptions{0.25}.momentum(0).trust_ratio(false))});
  optimizer.step();
  CHECK(torch::allclose(third, torch::full({2}, 0.25F)));
}

TEST_CASE("an option out of range is refused, and the message names it") {
  Tensors const parameters{torch::ones({2}, torch::requires_grad())};
  check_contains(thrown_error([&] {
                   return Adadelta{parameters, AdadeltaOptions{}.rho(1.5)}.state().size();
                 }),
                 "invalid_config: AdadeltaOptions::rho: must be from 0 to 1 (got 1.5)");
  check_contains(thrown_error([&] {
                   return LAMB{parameters, LAMBOptions{}.betas({0.9, 1})}.state().size();
                 }),
                 "invalid_config: LAMBOptions::betas: must be from 0 to below 1 (got 1)");
  check_contains(thrown_error([&] {
                   return LARS{parameters, LARSOptions{-1}}.state().size();
                 }),
                 "invalid_config: LARSOptions::lr: must be 0 or more (got -1)");
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  check_contains(thrown_error([&] {
                   return LARS{parameters, LARSOptions{nan}}.state().size();
                 }),
                 "LARSOptions::lr: must be 0 or more (got nan)");
  torch::optim::OptimizerParamGroup const biases{parameters, std::make_unique<LARSOptions>(-2)};
  check_contains(thrown_error([&] { return LARS{std::vector{biases}}.state().size(); }),
                 "invalid_config: LARSOptions::lr: must be 0 or more (got -2)");
}

TEST_CASE("a sparse gradient is refused, and the message says what gives none") {
  torch::nn::Embedding embedding{torch::nn::EmbeddingOptions(4, 2).sparse(true)};
  embedding(torch::tensor({1, 2})).sum().backward();
  LAMB optimizer{embedding->parameters()};
  auto const text = thrown_error([&] { return optimizer.step().defined(); });
  check_contains(text, "backend: a step of LAMB: a parameter's gradient is sparse");
  check_contains(text, "without EmbeddingOptions::sparse");
}

TEST_CASE("a closure is called with gradients, and its loss returned") {
  auto const parameter = torch::ones({2}, torch::requires_grad());
  Adadelta optimizer{Tensors{parameter}};
  torch::NoGradGuard const no_grad;
  auto const loss = optimizer.step([&] {
    auto sum = parameter.sum();
    sum.backward();
    return sum;
  });
  CHECK(loss.item<float>() == 2);
  CHECK(parameter[0].item<float>() < 1);
}

TEST_CASE("LAMB and LARS train the same bits on each of several workers") {
  std::vector<Tensors> parameters(3);
  run_once({.workers = 3}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return torch::nn::Linear{4, 3}; });
    LAMB by_norm{{model->weight}};
    LARS by_gradient{{model->bias}, LARSOptions{1.0}};
    for (int step = 0; step < 5; ++step) {
      model->zero_grad();
      model(torch::rand({2, 4}, ctx.generator())).square().sum().backward();
      by_norm.step();
      by_gradient.step();
    }
    parameters[ctx.world_rank().value] = copies(model->parameters());
  });
  CHECK(same_bits(parameters[1], parameters[0]));
  CHECK(same_bits(parameters[2], parameters[0]));
}
