// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>

#include "data_parallel.hpp"
#include "gloo_group.hpp"
#include "main_job/job.hpp"

/// Steps of an MLP on several workers, of which each has batches of its own, by several ways to exchange gradients that
/// take turns.
namespace ddp {

struct Batch {
  torch::Tensor inputs;
  torch::Tensor labels;
};

/// Which network a side has at the end.
enum class Network {
  own,     ///< Another one on each worker.
  common,  ///< The same bits on all workers.
  summed,  ///< Those of the side "raytrain", too.
};

/// One way to exchange gradients, with a network and an optimizer of its own.
struct Side {
  std::string name;
  Network network = Network::summed;
  std::vector<torch::Tensor> parameters;
  std::function<void(Batch const&)> train;  ///< On one batch.
  std::vector<double> times_s{};            ///< Of `batches_a_time` batches.
};

/// Batches of a step where gradients are accumulated, and so what the batches of a turn are a multiple of.
inline constexpr int batches_a_time = job::accumulated_batches;

inline auto loss_of(torch::nn::Sequential& network, Batch const& batch) -> torch::Tensor {
  return torch::cross_entropy_loss(network->forward(batch.inputs), batch.labels);
}

inline auto adam_of(torch::nn::Sequential const& network) -> std::shared_ptr<torch::optim::Adam> {
  return std::make_shared<torch::optim::Adam>(network->parameters(), job::learning_rate);
}

/// Workers that train networks of their own: the bound for every way to exchange gradients. `before_step` is called
/// behind a step's last backward.
inline auto apart(
    std::string name, torch::nn::Sequential network, int batches_of_step = 1,
    std::function<void()> const& before_step = [] {}) -> Side {
  auto const optimizer = adam_of(network);
  auto const parameters = network->parameters();
  auto train = [=, number = 0](Batch const& batch) mutable {
    auto const loss = loss_of(network, batch);
    (batches_of_step > 1 ? loss / batches_of_step : loss).backward();
    if (++number % batches_of_step != 0) return;
    before_step();
    optimizer->step();
    // Cheaper than Optimizer::zero_grad, which LibTorch 1.13 lets fill them with zeros.
    for (auto parameter : parameters) parameter.mutable_grad().reset();
  };
  return {std::move(name), Network::own, parameters, std::move(train)};
}

/// The same, but for an all_reduce of an array of so many elements in each step, where it is fastest: with one the
/// bound for ways that wait for each other, with those of all gradients for ways that do not overlap with backward.
inline auto apart_in_step(std::string name, raytrain::TorchContext& ctx, torch::nn::Sequential network,
                          std::size_t elements) -> Side {
  auto const array = std::make_shared<raytrain::Buffer<float>>(ctx.collective().allocate<float>(elements));
  return apart(std::move(name), std::move(network), 1,
               [array, &ctx] { ctx.collective().all_reduce(array->span(), raytrain::ReduceOp::sum); });
}

inline auto with_reducer(std::string name, torch::nn::Sequential network,
                         c10::intrusive_ptr<c10d::ProcessGroupGloo> const& group, bool views) -> Side {
  auto const parallel = std::make_shared<DataParallel>(network->parameters(), group, views);
  auto const optimizer = adam_of(network);
  auto train = [=](Batch const& batch) mutable {
    parallel->before_forward();
    auto const loss = loss_of(network, batch);
    parallel->before_backward();
    loss.backward();
    optimizer->step();
    parallel->zero_grad();
  };
  // Of two values a sum has the same bits in any order.
  return {std::move(name), group->getSize() == 2 ? Network::summed : Network::common, network->parameters(),
          std::move(train)};
}

/// `network`: a prepared one.
inline auto with_raytrain(std::string name, raytrain::TorchContext& ctx, torch::nn::Sequential network,
                          std::shared_ptr<torch::optim::Optimizer> const& optimizer, int batches_of_step = 1) -> Side {
  auto train = [=, &ctx](Batch const& batch) mutable {
    auto const is_last = ctx.accumulate(batches_of_step);
    auto const loss = loss_of(network, batch);
    loss.backward();
    if (!is_last) return;
    optimizer->step();
    optimizer->zero_grad();
  };
  return {std::move(name), batches_of_step == 1 ? Network::summed : Network::common, network->parameters(),
          std::move(train)};
}

inline auto side_named(std::vector<Side> const& sides, std::string const& name) -> Side const& {
  return *std::ranges::find(sides, name, &Side::name);
}

/// Lets all sides begin with the network of the side "raytrain".
inline void begin_alike(std::vector<Side> const& sides) {
  torch::NoGradGuard const no_grad;
  auto const& first = side_named(sides, "raytrain").parameters;
  for (auto const& side : sides) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      torch::Tensor to = side.parameters[i];
      if (side.name != "raytrain") to.copy_(first[i]);
    }
  }
}

/// Errors: when a way to exchange gradients has not done what it should.
inline void check(raytrain::TorchContext& ctx, std::vector<Side> const& sides) {
  auto const refuse = [](std::string const& name, std::string const& what) {
    throw std::runtime_error{"the network of " + name + what};
  };
  auto const flat = [](Side const& side) {
    std::vector<torch::Tensor> parts;
    for (auto const& parameter : side.parameters) parts.push_back(parameter.detach().flatten());
    return torch::cat(parts);
  };
  auto const expected = flat(side_named(sides, "raytrain"));
  for (auto const& side : sides) {
    auto const own = flat(side);
    auto const of_rank_0 = own.clone();
    ctx.collective().broadcast(std::span{of_rank_0.data_ptr<float>(), static_cast<std::size_t>(of_rank_0.numel())},
                               raytrain::Rank{0});
    auto const is_own = side.network == Network::own;
    if (is_own && ctx.world_rank() != raytrain::Rank{0} && torch::equal(own, of_rank_0)) {
      refuse(side.name, " is that of another worker");
    }
    if (!is_own && !torch::equal(own, of_rank_0)) refuse(side.name, " is another one on each worker");
    if (side.network == Network::summed && !torch::equal(own, expected)) refuse(side.name, " is not that of raytrain");
  }
}

/// Joins the workers by Gloo, with a store in this folder.
inline auto join_workers(raytrain::TorchContext& ctx, std::string const& interface = {})
    -> c10::intrusive_ptr<c10d::ProcessGroupGloo> {
  std::array<std::int64_t, 1> unique{std::chrono::steady_clock::now().time_since_epoch().count()};
  ctx.collective().broadcast(unique, raytrain::Rank{0});
  return join_by_gloo(static_cast<int>(ctx.world_rank().value), static_cast<int>(ctx.world_size().value),
                      "gloo_store_" + std::to_string(unique[0]), interface);
}

struct Turns {
  std::int64_t samples = 0;  ///< Of a worker's batch.
  int batches = 0;           ///< Of a turn; a multiple of `batches_a_time`.
  int turns = 0;             ///< Of each side, at least 1.

  [[nodiscard]] auto are_possible() const -> bool {
    return samples > 0 && batches >= batches_a_time && batches % batches_a_time == 0 && turns > 0;
  }
};

/// A worker's batches, of which each side takes one after the other. Inputs have 784 values, and labels 10.
inline auto batches_of(raytrain::TorchContext& ctx, std::int64_t samples) -> std::vector<Batch> {
  std::vector<Batch> batches;
  for (int i = 0; i < batches_a_time; ++i) {
    batches.push_back(
        {torch::randn({samples, 784}, ctx.generator()), torch::randint(10, {samples}, ctx.generator(), torch::kLong)});
  }
  return batches;
}

/// By side, the time of a batch in us: the median on each worker, of which the slowest one counts.
using Figures = std::vector<std::pair<std::string, double>>;

/// Lets all sides begin alike and take turns.
///
/// Errors: when a side has not trained as it should.
inline auto measure(raytrain::TorchContext& ctx, std::vector<Side> sides, Turns const& turns) -> Figures {
  auto const batches = batches_of(ctx, turns.samples);
  begin_alike(sides);
  auto const take_turn = [&](Side& side, int count) {
    ctx.collective().barrier();
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; i += batches_a_time) {
      for (auto const& batch : batches) side.train(batch);
      auto const end = std::chrono::steady_clock::now();
      side.times_s.push_back(std::chrono::duration<double>{end - std::exchange(begin, end)}.count());
    }
  };
  for (auto& side : sides) {
    // Optimizers make their state, and the reducer its buckets anew, in the first steps.
    take_turn(side, batches_a_time);
    side.times_s.clear();
  }
  for (std::size_t turn = 0; turn < static_cast<std::size_t>(turns.turns); ++turn) {
    // Who begins changes, so that a machine that slows down is not one side's.
    for (std::size_t i = 0; i < sides.size(); ++i) take_turn(sides[(turn + i) % sides.size()], turns.batches);
  }
  check(ctx, sides);
  Figures figures;
  for (auto& side : sides) {
    std::ranges::sort(side.times_s);
    std::array<double, 1> us{1e6 * side.times_s[side.times_s.size() / 2] / batches_a_time};
    ctx.collective().all_reduce(us, raytrain::ReduceOp::max);
    figures.emplace_back(side.name, us[0]);
  }
  return figures;
}

inline void print(Figures const& figures) {
  auto const* separator = "{";
  for (auto const& [name, us] : figures) {
    std::printf("%s\"%s\": %.2f", std::exchange(separator, ", "), name.c_str(), us);
  }
  std::printf("}\n");
}

}  // namespace ddp
