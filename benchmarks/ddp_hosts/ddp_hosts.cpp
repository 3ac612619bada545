// SPDX-License-Identifier: Apache-2.0
// Steps of an MLP 784-WIDTH-...-WIDTH-10, with LAYERS hidden layers, on the ranks of an MPI job, of which each has
// batches of its own, of SAMPLES. Ways to exchange gradients take turns of BATCHES, a multiple of 4:
//   ddp_hosts WIDTH LAYERS SAMPLES BATCHES TURNS INTERFACE
// INTERFACE is that of the network between the hosts, for Gloo.
#include <algorithm>
#include <array>
#include <chrono>
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

namespace {

struct Shape {
  std::int64_t width = 0;
  std::int64_t layers = 0;  ///< Hidden ones.
};

auto make_mlp(Shape const& shape) -> torch::nn::Sequential {
  torch::nn::Sequential network;
  std::int64_t inputs = 784;
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    network->push_back(torch::nn::Linear{std::exchange(inputs, shape.width), shape.width});
    network->push_back(torch::nn::ReLU{});
  }
  network->push_back(torch::nn::Linear{inputs, 10});
  return network;
}

auto sides_of(raytrain::TorchContext& ctx, Shape const& shape, c10::intrusive_ptr<c10d::ProcessGroupGloo> const& group)
    -> std::vector<ddp::Side> {
  std::vector<ddp::Side> sides;
  auto const add = [&](std::string name, raytrain::ModelOptions const& options, ddp::Network at_end) {
    auto const model = ctx.prepare_model([&] { return make_mlp(shape); }, options);
    sides.push_back(ddp::with_raytrain(std::move(name), ctx, model, ddp::adam_of(model)));
    sides.back().network = at_end;
  };
  sides.push_back(ddp::apart("apart", make_mlp(shape)));
  add("raytrain", {.overlap = raytrain::Overlap::off}, ddp::Network::summed);
  add("overlapped", {.overlap = raytrain::Overlap::on}, ddp::Network::summed);
  auto const bf16 = [] { return raytrain::compressed(raytrain::Compression::bf16); };
  add("bf16", {.exchange = bf16(), .overlap = raytrain::Overlap::off}, ddp::Network::common);
  add("overlapped bf16", {.exchange = bf16(), .overlap = raytrain::Overlap::on}, ddp::Network::common);
  auto const power_sgd = std::make_shared<raytrain::PowerSGD>(raytrain::PowerSGDConfig{.exact_steps = 0});
  add("power_sgd", {.exchange = power_sgd}, ddp::Network::common);
  sides.push_back(ddp::with_reducer("gloo", make_mlp(shape), group, true));
  return sides;
}

/// The time of a backward in us, while all workers compute one: the median on each, of which the slowest one counts. No
/// exchange beside a backward can hide more than that.
auto backward_us(raytrain::TorchContext& ctx, Shape const& shape, std::int64_t samples) -> double {
  constexpr std::size_t count = 12;
  auto const batch = ddp::batches_of(ctx, samples).front();
  auto network = make_mlp(shape);
  std::array<double, count> times_us{};
  for (auto& time_us : times_us) {
    ctx.collective().barrier();
    auto const loss = ddp::loss_of(network, batch);
    auto const begin = std::chrono::steady_clock::now();
    loss.backward();
    time_us = std::chrono::duration<double, std::micro>{std::chrono::steady_clock::now() - begin}.count();
    network->zero_grad();
  }
  std::ranges::sort(times_us);
  std::array<double, 1> median{times_us[count / 2]};
  ctx.collective().all_reduce(median, raytrain::ReduceOp::max);
  return median[0];
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  Shape const shape{.width = number(1), .layers = number(2)};
  ddp::Turns const turns{.samples = number(3), .batches = number(4), .turns = number(5)};
  auto const job = raytrain::job_environment();
  if (argc != 7 || shape.width < 1 || shape.layers < 1 || !turns.are_possible() || !job) {
    throw std::invalid_argument{
        "usage: mpirun ... ddp_hosts WIDTH LAYERS SAMPLES BATCHES TURNS INTERFACE, with a multiple of 4 batches"};
  }
  ddp::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto const group = ddp::join_workers(ctx, argv[6]);
        auto mine = ddp::measure(ctx, sides_of(ctx, shape, group), turns);
        mine.emplace_back("backward", backward_us(ctx, shape, turns.samples));
        group->barrier()->wait();  // nobody leaves while another one needs the connection
        if (ctx.world_rank() == raytrain::Rank{0}) figures = std::move(mine);
      },
      {.scaling = {.num_workers = job->size.value, .resources_per_worker = {.cpus = 1}},
       .run = {.name = "ddp_hosts", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  if (raytrain::is_first_of_job()) ddp::print(figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "ddp_hosts: %s\n", error.what());
  return 1;
}
