// SPDX-License-Identifier: Apache-2.0
// Two thread workers with a number of virtual shards, or without (0), and a number of equal parts of each worker's
// batch whose gradients are added up:  virtual_shards mlp|conv STEPS SHARDS PARTS
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/trainer.hpp>

#include "../main_job/batches.hpp"
#include "../main_job/job.hpp"

namespace {

auto train(raytrain::TorchContext& ctx, job::Options const& options, int parts) -> job::Figures {
  auto const network = ctx.prepare_model([&] { return make_network(options.model); });
  torch::optim::Adam optimizer{network->parameters(), job::learning_rate};
  auto const has_shards = ctx.virtual_shards() > 0;
  job::Batches batches{ctx.dataset_shard("train"), has_shards ? job::worker_batch / parts : job::worker_batch};

  auto const with_shards = [&] {
    auto loss_sum = 0.0;
    for (auto is_complete = false; !is_complete;) {
      auto const batch = batches.next();
      auto const loss = job::loss_of(*network, batch["image"].unsqueeze(1), batch["label"]);
      loss.backward();
      loss_sum += loss.item<double>() / parts;
      is_complete = batch.ends_step();
    }
    return loss_sum;
  };
  // One backward of the mean of all parts' losses: gradients are added up by autograd, and averaged once.
  auto const with_parts = [&] {
    auto const batch = batches.next();
    auto const images = batch["image"].unsqueeze(1).chunk(parts);
    auto const labels = batch["label"].chunk(parts);
    torch::Tensor loss;
    for (std::size_t i = 0; i < images.size(); ++i) {
      auto const part = job::loss_of(*network, images[i], labels[i]) / parts;
      loss = loss.defined() ? loss + part : part;
    }
    loss.backward();
    return loss.item<double>();
  };
  auto const figures = job::measure(options, [&] {
    optimizer.zero_grad();
    auto const loss = has_shards ? with_shards() : with_parts();
    optimizer.step();
    return loss;
  });
  check_equal(network->parameters(),
              [&](std::vector<double>& values) { ctx.collective().broadcast(std::span{values}, raytrain::Rank{0}); });
  return figures;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc < 5) throw std::invalid_argument{"usage: virtual_shards mlp|conv STEPS SHARDS PARTS"};
  job::Options const options{argv[1], std::atoi(argv[2])};
  auto const parts = std::atoi(argv[4]);
  job::Figures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto const mine = train(ctx, options, parts);
        if (ctx.world_rank() == raytrain::Rank{0}) figures = mine;
      },
      {.scaling = {.num_workers = job::workers,
                   .resources_per_worker = {.cpus = 1},
                   .virtual_shards = std::atoi(argv[3])},
       .run = {.name = "virtual_shards", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed},
       .datasets = {{"train", raytrain::read_idx(options.data + "/train-images-idx3-ubyte.gz",
                                                 options.data + "/train-labels-idx1-ubyte.gz")}}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  job::print(options, figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "virtual_shards: %s\n", error.what());
  return 1;
}
