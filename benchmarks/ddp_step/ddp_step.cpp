// SPDX-License-Identifier: Apache-2.0
// Steps of an MLP 784-HIDDEN-HIDDEN-10 on two workers, ranks under mpirun and else threads, of which each has batches
// of its own. Ways to exchange gradients take turns of BATCHES, a multiple of 4:  ddp_step HIDDEN BATCHES TURNS
// The most memory that a worker has in use by one of the ways, NAME, alone:       ddp_step HIDDEN NAME
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "../ddp_sides.hpp"
#include "../peak_memory.hpp"

namespace {

auto make_mlp(std::int64_t hidden) -> torch::nn::Sequential {
  using torch::nn::Linear;
  using torch::nn::ReLU;
  return torch::nn::Sequential{Linear{784, hidden}, ReLU{}, Linear{hidden, hidden}, ReLU{}, Linear{hidden, 10}};
}

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// `group`: for those whose name begins with "gloo".
auto side_of(raytrain::TorchContext& ctx, std::int64_t hidden, std::string const& name, Group const& group)
    -> ddp::Side {
  if (name == "apart") return ddp::apart(name, make_mlp(hidden));
  if (name == "apart_accumulated") return ddp::apart(name, make_mlp(hidden), job::accumulated_batches);
  if (name == "waiting" || name == "summing") {
    auto const elements = 784 * hidden + hidden * hidden + 10 * hidden + 2 * hidden + 10;
    return ddp::apart_in_step(name, ctx, make_mlp(hidden), name == "waiting" ? 1 : static_cast<std::size_t>(elements));
  }
  if (name.starts_with("gloo")) return ddp::with_reducer(name, make_mlp(hidden), group, name == "gloo_views");
  constexpr std::array ours{"raytrain", "sharded", "accumulated", "bf16", "power_sgd"};
  if (std::ranges::find(ours, name) == ours.end()) throw std::invalid_argument{"no way is called " + name};
  raytrain::ModelOptions options;
  if (name == "bf16") options.exchange = raytrain::compressed(raytrain::Compression::bf16);
  if (name == "power_sgd") {
    options.exchange = std::make_shared<raytrain::PowerSGD>(raytrain::PowerSGDConfig{.exact_steps = 0});
  }
  auto const model = ctx.prepare_model([&] { return make_mlp(hidden); }, options);
  auto const batches = name == "accumulated" ? job::accumulated_batches : 1;
  if (name != "sharded") {
    auto side = ddp::with_raytrain(name, ctx, model, ddp::adam_of(model), batches);
    if (options.exchange != nullptr) side.network = ddp::Network::common;
    return side;
  }
  std::shared_ptr<torch::optim::Optimizer> const optimizer{
      new raytrain::ShardedOptimizer{ctx.prepare_optimizer<torch::optim::Adam>(model, {job::learning_rate})}};
  return ddp::with_raytrain(name, ctx, model, optimizer);
}

/// Those that take turns.
auto sides_of(raytrain::TorchContext& ctx, std::int64_t hidden, Group const& group) -> std::vector<ddp::Side> {
  std::vector<ddp::Side> sides;
  for (auto const* const name : {"apart", "raytrain", "gloo_copied", "gloo_views", "waiting", "summing", "sharded",
                                 "apart_accumulated", "accumulated", "bf16", "power_sgd"}) {
    sides.push_back(side_of(ctx, hidden, name, group));
  }
  return sides;
}

/// The most memory that a worker had in use, in MiB, where each has trained by one side alone.
auto peak_of(raytrain::TorchContext& ctx, std::int64_t hidden, std::string const& name) -> double {
  auto const group = name.starts_with("gloo") ? ddp::join_workers(ctx) : Group{};
  auto const side = side_of(ctx, hidden, name, group);
  auto const batches = ddp::batches_of(ctx, job::worker_batch);
  for (int turn = 0; turn < 3; ++turn) {
    for (auto const& batch : batches) side.train(batch);
  }
  std::array<double, 1> peak{peak_mib()};
  ctx.collective().all_reduce(peak, raytrain::ReduceOp::max);
  if (group) group->barrier()->wait();  // nobody leaves while the other one needs the connection
  return peak[0];
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  ddp::Turns const turns{.samples = job::worker_batch, .batches = number(2), .turns = number(3)};
  auto const measures_memory = argc == 3;
  if (!measures_memory && (argc != 4 || !turns.are_possible())) {
    throw std::invalid_argument{
        "usage: ddp_step HIDDEN BATCHES TURNS, with a multiple of 4 batches, or ddp_step HIDDEN NAME"};
  }
  ddp::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        if (measures_memory) {
          auto const peak = peak_of(ctx, number(1), argv[2]);
          if (ctx.world_rank() == raytrain::Rank{0}) figures = {{"peak_mib", peak}};
          return;
        }
        auto const group = ddp::join_workers(ctx);
        auto mine = ddp::measure(ctx, sides_of(ctx, number(1), group), turns);
        group->barrier()->wait();  // nobody leaves while the other one needs the connection
        if (ctx.world_rank() == raytrain::Rank{0}) figures = std::move(mine);
      },
      {.scaling = {.num_workers = job::workers, .resources_per_worker = {.cpus = 1}},
       .run = {.name = "ddp_step", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  if (raytrain::is_first_of_job()) ddp::print(figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "ddp_step: %s\n", error.what());
  return 1;
}
