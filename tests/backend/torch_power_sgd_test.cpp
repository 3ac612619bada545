// SPDX-License-Identifier: Apache-2.0
// Gradients that travel as products of two thin matrices.
#include <raytrain/backend/torch/power_sgd.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/message/object_bytes.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

constexpr std::int64_t rows = 24;
constexpr std::int64_t columns = 40;

/// A matrix and a bias, whose gradients are what is given.
struct GivenImpl : torch::nn::Module {
  torch::Tensor matrix = register_parameter("matrix", torch::zeros({rows, columns}));
  torch::Tensor bias = register_parameter("bias", torch::zeros({rows}));
  auto forward(torch::Tensor const& of_matrix, torch::Tensor const& of_bias) -> torch::Tensor {
    return (matrix * of_matrix).sum() + (bias * of_bias).sum();
  }
};
TORCH_MODULE(Given);

/// Two matrices, of which a forward uses one.
struct HeadsImpl : torch::nn::Module {
  torch::Tensor first = register_parameter("first", torch::zeros({rows, columns}));
  torch::Tensor second = register_parameter("second", torch::zeros({rows, columns}));
  auto forward(int head, torch::Tensor const& gradient) -> torch::Tensor {
    return ((head == 0 ? first : second) * gradient).sum();
  }
};
TORCH_MODULE(Heads);

auto random(at::IntArrayRef sizes, std::uint64_t seed) -> torch::Tensor {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

/// The gradient of a worker in a step.
using Gradients = std::function<torch::Tensor(std::uint32_t rank, int step)>;

auto of_full_rank(std::uint32_t rank, int step) -> torch::Tensor {
  return random({rows, columns}, 100 * static_cast<std::uint64_t>(step) + rank);
}

struct Exchanged {
  std::vector<Tensors> averages;      // of the matrix, by rank and step
  std::vector<Tensors> biases;        // by rank and step
  std::vector<PowerSGDState> states;  // by rank, behind the last step
};

/// What `steps` steps leave as gradients, from the states that are given.
auto exchange(int workers, int steps, PowerSGDConfig const& config, Gradients const& gradients,
              std::vector<PowerSGDState> const& states = {}, int first_step = 0) -> Exchanged {
  Exchanged result{std::vector<Tensors>(static_cast<std::size_t>(workers)),
                   std::vector<Tensors>(static_cast<std::size_t>(workers)),
                   std::vector<PowerSGDState>(static_cast<std::size_t>(workers))};
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto const power_sgd = std::make_shared<PowerSGD>(config);
    auto const rank = ctx.world_rank().value;
    if (!states.empty()) power_sgd->state() = from_bytes<PowerSGDState>(to_bytes(states[rank]));
    auto model = ctx.prepare_model([] { return Given{}; }, {.exchange = power_sgd});
    for (int step = first_step; step < first_step + steps; ++step) {
      model->zero_grad();
      model->forward(gradients(rank, step), random({rows}, 7 + rank)).backward();
      result.averages[rank].push_back(model->matrix.grad().clone());
      result.biases[rank].push_back(model->bias.grad().clone());
    }
    result.states[rank] = from_bytes<PowerSGDState>(to_bytes(power_sgd->state()));
  });
  return result;
}

auto mean_of(int workers, int step, Gradients const& gradients) -> torch::Tensor {
  auto sum = torch::zeros({rows, columns});
  for (int rank = 0; rank < workers; ++rank) sum += gradients(static_cast<std::uint32_t>(rank), step);
  return sum / workers;
}

auto distance(torch::Tensor const& left, torch::Tensor const& right) -> double {
  return (left - right).norm().item<double>() / right.norm().item<double>();
}

auto is_finite(torch::Tensor const& tensor) -> bool { return tensor.isfinite().all().item<bool>(); }

TEST_CASE("a gradient of no higher rank comes out as the average, and others as a projection of it") {
  Gradients const thin = [](std::uint32_t rank, int step) {
    return random({rows, 1}, static_cast<std::uint64_t>(step)).mm(random({1, columns}, 50 + rank));
  };
  for (int const matrix_rank : {1, 2, 3}) {
    auto const of_thin = exchange(2, 1, {.rank = matrix_rank, .exact_steps = 0}, thin);
    CHECK(distance(of_thin.averages[0][0], mean_of(2, 0, thin)) < 1e-5);
  }
  auto const mean = mean_of(2, 0, of_full_rank);
  auto const product = exchange(2, 1, {.rank = 2, .exact_steps = 0}, of_full_rank).averages[0][0];
  CHECK(distance(product, mean) > 0.1);
  // A projection P P^T M: what is left of M is orthogonal to it.
  CHECK(std::abs(((mean - product) * product).sum().item<double>()) < 1e-3 * mean.norm().item<double>());
}

TEST_CASE("the product is the mean's projection onto what the mean makes of the factor") {
  PowerSGDConfig const config{.rank = 2, .exact_steps = 0};
  auto const before = exchange(2, 1, config, of_full_rank);
  auto const after = exchange(2, 1, config, of_full_rank, before.states, 1);
  auto sum = torch::zeros({rows, columns});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto error = before.states[rank].errors.at("matrix");
    sum += of_full_rank(static_cast<std::uint32_t>(rank), 1) + torch::from_blob(error.data(), {rows, columns});
  }
  auto const mean = sum / 2;
  auto factor = before.states[0].factors.at("matrix");
  auto const base = std::get<0>(torch::linalg_qr(mean.mm(torch::from_blob(factor.data(), {columns, 2}))));
  CHECK(distance(after.averages[0][0], base.mm(base.t()).mm(mean)) < 1e-5);
}

TEST_CASE("what a step loses is in the next ones: averages and errors make up all gradients") {
  for (int const workers : {2, 3}) {
    constexpr int steps = 5;
    auto const result = exchange(workers, steps, {.rank = 1, .exact_steps = 0}, of_full_rank);
    auto given = torch::zeros({rows, columns});
    auto got = torch::zeros({rows, columns});
    for (int step = 0; step < steps; ++step) {
      given += mean_of(workers, step, of_full_rank);
      got += result.averages[0][static_cast<std::size_t>(step)];
    }
    for (auto const& state : result.states) {
      auto error = state.errors.at("matrix");
      got += torch::from_blob(error.data(), {rows, columns}) / workers;
    }
    CHECK(distance(got, given) < 1e-5);
  }
}

TEST_CASE("every worker gets the same bits, and a bias travels as it is") {
  auto const result = exchange(3, 4, {.rank = 2, .exact_steps = 1}, of_full_rank);
  CHECK(same_bits(result.averages[1], result.averages[0]));
  CHECK(same_bits(result.averages[2], result.averages[0]));
  auto const mean = (random({rows}, 7) + random({rows}, 8) + random({rows}, 9)) / 3;
  for (auto const& bias : result.biases[0]) CHECK(torch::allclose(bias, mean));
  for (auto const& state : result.states) {
    CHECK(state.factors == result.states[0].factors);
    CHECK(state.factors.size() == 1);
  }
}

TEST_CASE("the first steps are exact, as are those of a world of one") {
  auto const result = exchange(2, 3, {.rank = 1, .exact_steps = 2}, of_full_rank);
  for (int step = 0; step < 2; ++step) {
    CHECK(torch::equal(result.averages[0][static_cast<std::size_t>(step)], mean_of(2, step, of_full_rank)));
  }
  CHECK(distance(result.averages[0][2], mean_of(2, 2, of_full_rank)) > 0.1);
  auto const alone = exchange(1, 1, {.rank = 1, .exact_steps = 0}, of_full_rank);
  CHECK(torch::equal(alone.averages[0][0], of_full_rank(0, 0)));
}

TEST_CASE("a gradient that is not finite is not finite on all workers, and nothing of its step is kept") {
  for (auto const bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Gradients const with_bad = [&](std::uint32_t rank, int step) {
      auto gradient = of_full_rank(rank, step);
      if (rank == 1 && step == 1) gradient[2][3] = bad;
      return gradient;
    };
    PowerSGDConfig const config{.rank = 2, .exact_steps = 0};
    auto const result = exchange(2, 3, config, with_bad);
    for (std::size_t rank = 0; rank < 2; ++rank) CHECK_FALSE(is_finite(result.averages[rank][1]));
    auto const without = exchange(2, 1, config, of_full_rank, exchange(2, 1, config, of_full_rank).states, 2);
    CHECK(same_bits({result.averages[0][2]}, without.averages[0]));
    CHECK(same_bits({result.averages[1][2]}, without.averages[1]));
  }
}

TEST_CASE("gradients that were zero are exchanged when they are not any more") {
  Gradients const first_zero = [](std::uint32_t rank, int step) {
    return step == 0 ? torch::zeros({rows, columns}) : random({rows, 1}, rank).mm(random({1, columns}, 5));
  };
  auto const result = exchange(2, 2, {.rank = 1, .exact_steps = 0}, first_zero);
  CHECK(torch::equal(result.averages[0][0], torch::zeros({rows, columns})));
  CHECK(distance(result.averages[0][1], mean_of(2, 1, first_zero)) < 1e-4);
}

TEST_CASE("what a step lost of a parameter waits while no worker uses it") {
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto const power_sgd = std::make_shared<PowerSGD>(PowerSGDConfig{.rank = 1, .exact_steps = 0});
    auto model = ctx.prepare_model([] { return Heads{}; }, {.exchange = power_sgd});
    auto const rank = ctx.world_rank().value;
    auto const step = [&](int head) {
      model->zero_grad();
      model->forward(head, of_full_rank(rank, 0)).backward();
    };
    step(0);
    auto const lost = power_sgd->state().errors.at("first");
    step(1);
    CHECK(power_sgd->state().errors.at("first") == lost);
    step(0);
    CHECK(power_sgd->state().errors.at("first") != lost);
  });
}

TEST_CASE("with its state it goes on to the same bits") {
  PowerSGDConfig const config{.rank = 2, .exact_steps = 1};
  auto const whole = exchange(2, 5, config, of_full_rank);
  auto const first = exchange(2, 2, config, of_full_rank);
  auto const rest = exchange(2, 3, config, of_full_rank, first.states, 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(same_bits({whole.averages[rank].begin() + 2, whole.averages[rank].end()}, rest.averages[rank]));
  }
}

TEST_CASE("a state of another rank is refused") {
  auto const states = exchange(2, 1, {.rank = 1, .exact_steps = 0}, of_full_rank).states;
  auto const error = thrown_error([&] { exchange(2, 1, {.rank = 2, .exact_steps = 0}, of_full_rank, states); });
  check_contains(error, "its state has 40 numbers for parameter 'matrix', which needs 80");
}

TEST_CASE("settings that cannot be are refused") {
  check_contains(thrown_error([] { PowerSGD{{.rank = 0}}; }), "PowerSGDConfig::rank: must be at least 1 (got 0)");
  check_contains(thrown_error([] { PowerSGD{{.exact_steps = -1}}; }),
                 "PowerSGDConfig::exact_steps: must not be negative (got -1)");
}

TEST_CASE("workers with other ranks of the matrices are told so") {
  auto const error = thrown_error([] {
    run_once({.workers = 2}, [&](TorchContext& ctx) {
      auto const power_sgd = std::make_shared<PowerSGD>(PowerSGDConfig{.rank = ctx.world_rank() == Rank{0} ? 1 : 2});
      auto const model = ctx.prepare_model([] { return Given{}; }, {.exchange = power_sgd});
    });
  });
  check_contains(error, "PowerSGD(rank 1");
}

TEST_CASE("a training by it comes to a loss near to that of one whose gradients travel as they are") {
  auto const train = [](std::shared_ptr<GradientExchange> const& first,
                        std::shared_ptr<GradientExchange> const& second) {
    double loss = 0;
    run_once({.workers = 2, .seed = 3, .datasets = {{"train", small_images(512)}}}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model(
          [] {
            return torch::nn::Sequential{torch::nn::Linear{64, 32}, torch::nn::ReLU{}, torch::nn::Linear{32, 10}};
          },
          {.exchange = ctx.world_rank() == Rank{0} ? first : second});
      torch::optim::SGD optimizer{model->parameters(), torch::optim::SGDOptions{0.1}.momentum(0.9)};
      auto shard = ctx.dataset_shard("train");
      torch::Tensor last;
      for (int epoch = 0; epoch < 6; ++epoch) {
        for (auto batch : shard.batches({.batch_size = 32, .epoch = epoch})) {
          optimizer.zero_grad();
          last = torch::nn::functional::cross_entropy(
              model->forward((batch["image"].to(torch::kFloat) / 255).flatten(1)), batch["label"].to(torch::kLong));
          last.backward();
          optimizer.step();
        }
      }
      if (ctx.world_rank() == Rank{0}) loss = last.item<double>();
    });
    return loss;
  };
  PowerSGDConfig const config{.rank = 2, .exact_steps = 4};
  auto const exact = train(nullptr, nullptr);
  auto const compressed = train(std::make_shared<PowerSGD>(config), std::make_shared<PowerSGD>(config));
  INFO("exact ", exact, ", compressed ", compressed);
  CHECK(compressed < exact + 0.1);
  CHECK(compressed < 2.2);  // of 2.3 at the beginning
}

}  // namespace
