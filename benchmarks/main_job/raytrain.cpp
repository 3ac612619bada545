// SPDX-License-Identifier: Apache-2.0
// The job with raytrain: two workers that are threads, or under mpirun its ranks. Each runs the whole optimizer or,
// with the argument "sharded", a part of it; with "accumulate" it takes a step for four batches.
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "batches.hpp"
#include "job.hpp"

namespace {

using Model = std::shared_ptr<Network>;

auto train(raytrain::TorchContext& ctx, job::Options const& options, Model const& network,
           torch::optim::Optimizer& optimizer, int accumulated = 1) -> job::Figures {
  job::Batches batches{ctx.dataset_shard("train"), job::worker_batch};

  auto const figures = job::measure(options, [&] {
    auto const batch = batches.next();
    auto const is_last = ctx.accumulate(accumulated);
    optimizer.zero_grad();
    auto const loss = job::loss_of(*network, batch["image"].unsqueeze(1), batch["label"]);
    loss.backward();
    if (is_last) optimizer.step();
    return loss.item<double>();
  });
  check_equal(network->parameters(),
              [&](std::vector<double>& values) { ctx.collective().broadcast(std::span{values}, raytrain::Rank{0}); });
  return figures;
}

auto train(raytrain::TorchContext& ctx, job::Options const& options, std::string_view variant) -> job::Figures {
  auto const network = ctx.prepare_model([&] { return make_network(options.model); });
  if (variant == "sharded") {
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(network, {job::learning_rate});
    return train(ctx, options, network, optimizer);
  }
  auto const accumulated = variant == "accumulate" ? job::accumulated_batches : 1;
  auto const rate = job::learning_rate * std::sqrt(accumulated);  // steps are fewer, and less noisy
  torch::optim::Adam optimizer{network->parameters(), rate};
  return train(ctx, options, network, optimizer, accumulated);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  std::string_view const variant = argc > 4 ? argv[4] : "";
  job::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto const mine = train(ctx, options, variant);
        if (ctx.world_rank() == raytrain::Rank{0}) figures = mine;
      },
      {.scaling = {.num_workers = job::workers, .resources_per_worker = {.cpus = 1}},
       .run = {.name = "main_job", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed},
       .datasets = {{"train", raytrain::read_idx(options.data + "/train-images-idx3-ubyte.gz",
                                                 options.data + "/train-labels-idx1-ubyte.gz")}}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  if (raytrain::is_first_of_job()) job::print(options, figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "raytrain: %s\n", error.what());
  return 1;
}
