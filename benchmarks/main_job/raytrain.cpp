// SPDX-License-Identifier: Apache-2.0
// The job with raytrain: two workers that are threads, or under mpirun its ranks.
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

#include "batches.hpp"
#include "job.hpp"

namespace {

auto train(raytrain::TorchContext& ctx, job::Options const& options) -> job::Figures {
  auto const network = ctx.prepare_model([&] { return make_network(options.model); });
  torch::optim::Adam optimizer{network->parameters(), job::learning_rate};
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

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  job::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto const mine = train(ctx, options);
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
