// SPDX-License-Identifier: Apache-2.0
// Steps of an MLP 784-HIDDEN-HIDDEN-10 on two workers, ranks under mpirun and else threads, of which each has batches
// of its own. Ways to exchange gradients take turns of BATCHES, a multiple of 4:  ddp_step HIDDEN BATCHES TURNS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "../ddp_sides.hpp"

namespace {

auto make_mlp(std::int64_t hidden) -> torch::nn::Sequential {
  using torch::nn::Linear;
  using torch::nn::ReLU;
  return torch::nn::Sequential{Linear{784, hidden}, ReLU{}, Linear{hidden, hidden}, ReLU{}, Linear{hidden, 10}};
}

auto sides_of(raytrain::TorchContext& ctx, std::int64_t hidden, c10::intrusive_ptr<c10d::ProcessGroupGloo> const& group)
    -> std::vector<ddp::Side> {
  auto const prepared = [&] { return ctx.prepare_model([&] { return make_mlp(hidden); }); };
  std::vector<ddp::Side> sides;
  sides.push_back(ddp::apart("apart", make_mlp(hidden)));
  auto const whole = prepared();
  sides.push_back(ddp::with_raytrain("raytrain", ctx, whole, ddp::adam_of(whole)));
  sides.push_back(ddp::with_reducer("gloo_copied", make_mlp(hidden), group, false));
  sides.push_back(ddp::with_reducer("gloo_views", make_mlp(hidden), group, true));
  auto const sharded = prepared();
  std::shared_ptr<torch::optim::Optimizer> const optimizer{
      new raytrain::ShardedOptimizer{ctx.prepare_optimizer<torch::optim::Adam>(sharded, {job::learning_rate})}};
  sides.push_back(ddp::with_raytrain("sharded", ctx, sharded, optimizer));
  sides.push_back(ddp::apart("apart_accumulated", make_mlp(hidden), job::accumulated_batches));
  auto const accumulating = prepared();
  sides.push_back(
      ddp::with_raytrain("accumulated", ctx, accumulating, ddp::adam_of(accumulating), job::accumulated_batches));
  return sides;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  ddp::Turns const turns{.samples = job::worker_batch, .batches = number(2), .turns = number(3)};
  if (argc != 4 || !turns.are_possible()) {
    throw std::invalid_argument{"usage: ddp_step HIDDEN BATCHES TURNS, with a multiple of 4 batches"};
  }
  ddp::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
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
