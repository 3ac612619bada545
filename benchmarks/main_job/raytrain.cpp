// SPDX-License-Identifier: Apache-2.0
// The job with raytrain: two workers that are threads, or under mpirun its ranks. Each runs the whole optimizer or,
// with the argument "sharded", a part of it.
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
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
           torch::optim::Optimizer& optimizer) -> job::Figures {
  job::Batches batches{ctx.dataset_shard("train"), job::worker_batch};

  auto const figures = job::measure(options, [&] {
    auto const batch = batches.next();
    optimizer.zero_grad();
    auto const loss = job::loss_of(*network, batch["image"].unsqueeze(1), batch["label"]);
    loss.backward();
    optimizer.step();
    return loss.item<double>();
  });
  job::check_equal(network->parameters(), [&](std::vector<double>& values) {
    ctx.collective().broadcast(std::span{values}, raytrain::Rank{0});
  });
  return figures;
}

auto train(raytrain::TorchContext& ctx, job::Options const& options, bool is_sharded) -> job::Figures {
  auto const network = ctx.prepare_model([&] { return make_network(options.model); });
  if (is_sharded) {
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(network, {job::learning_rate});
    return train(ctx, options, network, optimizer);
  }
  torch::optim::Adam optimizer{network->parameters(), job::learning_rate};
  return train(ctx, options, network, optimizer);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  auto const is_sharded = argc > 4 && std::string_view{argv[4]} == "sharded";
  job::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto const mine = train(ctx, options, is_sharded);
        if (ctx.world_rank() == raytrain::Rank{0}) figures = mine;
      },
      {.scaling = {.num_workers = job::workers},
       .run = {.name = "main_job", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed},
       .datasets = {{"train", raytrain::read_idx(options.data + "/train-images-idx3-ubyte.gz",
                                                 options.data + "/train-labels-idx1-ubyte.gz")}}}};
  trainer.fit();
  if (raytrain::is_first_of_job()) job::print(options, figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "raytrain: %s\n", error.what());
  return 1;
}
