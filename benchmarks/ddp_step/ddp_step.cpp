// SPDX-License-Identifier: Apache-2.0
// Steps of an MLP 784-HIDDEN-HIDDEN-10 on two workers, ranks under mpirun and else threads, of which each has batches
// of its own. Ways to exchange gradients take turns of BATCHES, a multiple of 4:  ddp_step HIDDEN BATCHES TURNS
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "../data_parallel.hpp"
#include "../gloo_group.hpp"
#include "../main_job/job.hpp"

namespace {

struct Options {
  std::int64_t hidden = 0;
  int batches = 0;  ///< Of a turn.
  int turns = 0;
};

struct Batch {
  torch::Tensor inputs;
  torch::Tensor labels;
};

/// One way to exchange gradients, with a network and an optimizer of its own.
struct Side {
  std::string name;
  std::vector<torch::Tensor> parameters;
  std::function<void(Batch const&)> train;  ///< On one batch.
  std::vector<double> times_s{};            ///< Of so many batches as are accumulated where they are.
};

/// Batches of a step where gradients are accumulated, and so what the batches of a turn are a multiple of.
constexpr int accumulated = job::accumulated_batches;

auto make_mlp(std::int64_t hidden) -> torch::nn::Sequential {
  using torch::nn::Linear;
  using torch::nn::ReLU;
  return torch::nn::Sequential{Linear{784, hidden}, ReLU{}, Linear{hidden, hidden}, ReLU{}, Linear{hidden, 10}};
}

auto loss_of(torch::nn::Sequential& network, Batch const& batch) -> torch::Tensor {
  return torch::cross_entropy_loss(network->forward(batch.inputs), batch.labels);
}

auto adam_of(torch::nn::Sequential const& network) -> std::shared_ptr<torch::optim::Adam> {
  return std::make_shared<torch::optim::Adam>(network->parameters(), job::learning_rate);
}

/// Workers that know nothing of each other: the bound for every way to exchange gradients.
auto apart(std::string name, torch::nn::Sequential network, int batches_of_step) -> Side {
  auto const optimizer = adam_of(network);
  auto const parameters = network->parameters();
  auto train = [=, number = 0](Batch const& batch) mutable {
    auto const loss = loss_of(network, batch);
    (batches_of_step > 1 ? loss / batches_of_step : loss).backward();
    if (++number % batches_of_step != 0) return;
    optimizer->step();
    // Cheaper than Optimizer::zero_grad, which LibTorch 1.13 lets fill them with zeros.
    for (auto parameter : parameters) parameter.mutable_grad().reset();
  };
  return {std::move(name), parameters, std::move(train)};
}

auto with_reducer(std::string name, torch::nn::Sequential network,
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
  return {std::move(name), network->parameters(), std::move(train)};
}

auto with_raytrain(std::string name, raytrain::TorchContext& ctx, torch::nn::Sequential network,
                   std::shared_ptr<torch::optim::Optimizer> const& optimizer, int batches_of_step) -> Side {
  auto train = [=, &ctx](Batch const& batch) mutable {
    auto const is_last = ctx.accumulate(batches_of_step);
    auto const loss = loss_of(network, batch);
    loss.backward();
    if (!is_last) return;
    optimizer->step();
    optimizer->zero_grad();
  };
  return {std::move(name), network->parameters(), std::move(train)};
}

auto sides_of(raytrain::TorchContext& ctx, std::int64_t hidden, c10::intrusive_ptr<c10d::ProcessGroupGloo> const& group)
    -> std::vector<Side> {
  auto const prepared = [&] { return ctx.prepare_model([&] { return make_mlp(hidden); }); };
  std::vector<Side> sides;
  sides.push_back(apart("apart", make_mlp(hidden), 1));
  auto const whole = prepared();
  sides.push_back(with_raytrain("raytrain", ctx, whole, adam_of(whole), 1));
  sides.push_back(with_reducer("gloo_copied", make_mlp(hidden), group, false));
  sides.push_back(with_reducer("gloo_views", make_mlp(hidden), group, true));
  auto const sharded = prepared();
  std::shared_ptr<torch::optim::Optimizer> const optimizer{
      new raytrain::ShardedOptimizer{ctx.prepare_optimizer<torch::optim::Adam>(sharded, {job::learning_rate})}};
  sides.push_back(with_raytrain("sharded", ctx, sharded, optimizer, 1));
  sides.push_back(apart("apart_accumulated", make_mlp(hidden), accumulated));
  auto const accumulating = prepared();
  sides.push_back(with_raytrain("accumulated", ctx, accumulating, adam_of(accumulating), accumulated));

  // All begin with the same network.
  torch::NoGradGuard const no_grad;
  for (auto const& side : sides) {
    for (std::size_t i = 0; i < side.parameters.size(); ++i) {
      torch::Tensor to = side.parameters[i];
      if (side.name != "raytrain") to.copy_(whole->parameters()[i]);
    }
  }
  return sides;
}

auto parameters_of(std::vector<Side> const& sides, std::string const& name) -> torch::Tensor {
  auto const side = std::ranges::find(sides, name, &Side::name);
  std::vector<torch::Tensor> flat;
  for (auto const& parameter : side->parameters) flat.push_back(parameter.detach().flatten());
  return torch::cat(flat);
}

/// Errors: when a way to exchange gradients has not done what it should.
void check(raytrain::TorchContext& ctx, std::vector<Side> const& sides) {
  auto const refuse = [](std::string const& name, std::string const& what) {
    throw std::runtime_error{"the network of " + name + what};
  };
  auto const expected = parameters_of(sides, "raytrain");
  for (auto const& [name, parameters, train, times_s] : sides) {
    auto const own = parameters_of(sides, name);
    auto const of_rank_0 = own.clone();
    ctx.collective().broadcast(std::span{of_rank_0.data_ptr<float>(), static_cast<std::size_t>(of_rank_0.numel())},
                               raytrain::Rank{0});
    if (name.starts_with("apart")) {
      if (ctx.world_rank() != raytrain::Rank{0} && torch::equal(own, of_rank_0)) refuse(name, " is that of the other");
    } else {
      if (!torch::equal(own, of_rank_0)) refuse(name, " is another one on each worker");
      if (name != "accumulated" && !torch::equal(own, expected)) refuse(name, " is not that of raytrain");
    }
  }
}

/// By side, the time of a batch in us: the median on each worker, of which the slower one counts.
using Figures = std::vector<std::pair<std::string, double>>;

auto train(raytrain::TorchContext& ctx, Options const& options) -> Figures {
  std::array<std::int64_t, 1> unique{getpid()};
  ctx.collective().broadcast(unique, raytrain::Rank{0});
  auto const group =
      join_by_gloo(static_cast<int>(ctx.world_rank().value), job::workers, "gloo_store_" + std::to_string(unique[0]));
  std::vector<Batch> batches;
  for (int i = 0; i < accumulated; ++i) {
    batches.push_back({torch::randn({job::worker_batch, 784}, ctx.generator()),
                       torch::randint(10, {job::worker_batch}, ctx.generator(), torch::kLong)});
  }
  auto sides = sides_of(ctx, options.hidden, group);

  auto const take_turn = [&](Side& side, int count) {
    ctx.collective().barrier();
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; i += accumulated) {
      for (auto const& batch : batches) side.train(batch);
      auto const end = std::chrono::steady_clock::now();
      side.times_s.push_back(std::chrono::duration<double>{end - std::exchange(begin, end)}.count());
    }
  };
  for (auto& side : sides) {
    // Optimizers make their state, and the reducer its buckets anew, in the first steps.
    take_turn(side, accumulated);
    side.times_s.clear();
  }
  for (std::size_t turn = 0; turn < static_cast<std::size_t>(options.turns); ++turn) {
    // Who begins changes, so that a machine that slows down is not one side's.
    for (std::size_t i = 0; i < sides.size(); ++i) {
      take_turn(sides[(turn + i) % sides.size()], options.batches);
    }
  }
  check(ctx, sides);
  group->barrier()->wait();  // nobody leaves while the other one needs the connection
  Figures figures;
  for (auto& [name, parameters, train, times_s] : sides) {
    std::ranges::sort(times_s);
    std::array<double, 1> us{1e6 * times_s[times_s.size() / 2] / accumulated};
    ctx.collective().all_reduce(us, raytrain::ReduceOp::max);
    figures.emplace_back(name, us[0]);
  }
  return figures;
}

void print(Figures const& figures) {
  auto const* separator = "{";
  for (auto const& [name, us] : figures) {
    std::printf("%s\"%s\": %.2f", std::exchange(separator, ", "), name.c_str(), us);
  }
  std::printf("}\n");
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  Options const options = argc == 4 ? Options{std::atoll(argv[1]), std::atoi(argv[2]), std::atoi(argv[3])} : Options{};
  if (options.batches < accumulated || options.batches % accumulated != 0 || options.turns < 1) {
    throw std::invalid_argument{"usage: ddp_step HIDDEN BATCHES TURNS, with a multiple of 4 batches"};
  }
  Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto mine = train(ctx, options);
        if (ctx.world_rank() == raytrain::Rank{0}) figures = std::move(mine);
      },
      {.scaling = {.num_workers = job::workers, .resources_per_worker = {.cpus = 1}},
       .run = {.name = "ddp_step", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed}}};
  trainer.fit();
  if (raytrain::is_first_of_job()) print(figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "ddp_step: %s\n", error.what());
  return 1;
}
