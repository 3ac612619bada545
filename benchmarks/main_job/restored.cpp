// SPDX-License-Identifier: Apache-2.0
// A run that goes on within an epoch, with a sharded optimizer: how long it takes from fit() to the end of its first
// step, of each of so many starts. Two workers that are threads:  restored mlp|conv STARTS
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/trainer.hpp>

#include "job.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Epoch {
  int epoch;
  double weights;  ///< As `weights_of`.
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(weights));
  }
};

/// The sum of the squares of all parameters.
auto weights_of(Network const& network) -> double {
  double squares = 0;
  for (auto const& parameter : network.parameters()) {
    squares += parameter.detach().to(torch::kDouble).square().sum().item<double>();
  }
  return squares;
}

/// One batch more of the first epoch than the checkpoint has, which has so many. Gives when its step has ended.
auto train(raytrain::TorchContext& ctx, std::string const& model, int batches, double& weights) -> Clock::time_point {
  auto network = ctx.prepare_model([&] { return make_network(model); });
  auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(network, {job::learning_rate});
  auto shard = ctx.dataset_shard("train");
  raytrain::TrainingState state{network, optimizer, shard};
  auto const epoch = ctx.restore(state);
  auto const samples = static_cast<std::uint64_t>(batches * job::global_batch);
  if (epoch != 0 || shard.position().samples != samples) {
    throw std::runtime_error{"the run begins in epoch " + std::to_string(epoch) + ", behind " +
                             std::to_string(shard.position().samples) + " samples of it"};
  }
  if (batches > 0 && weights_of(*network) != weights) {
    throw std::runtime_error{"the network is not that of the checkpoint"};
  }
  for (auto const& batch : shard.batches({.batch_size = job::worker_batch, .epoch = epoch})) {
    optimizer.zero_grad();
    job::loss_of(*network, batch["image"].unsqueeze(1), batch["label"]).backward();
    optimizer.step();
    auto const end = Clock::now();
    weights = weights_of(*network);
    ctx.report(Epoch{epoch, weights}, raytrain::save(state));
    return end;
  }
  throw std::runtime_error{"the epoch has no more batches"};
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 3) throw std::invalid_argument{"usage: restored mlp|conv STARTS"};
  std::string const model = argv[1];
  auto const data = job::Options{}.data;
  auto const dataset = raytrain::read_idx(data + "/train-images-idx3-ubyte.gz", data + "/train-labels-idx1-ubyte.gz");
  auto const starts = std::atoi(argv[2]);
  std::vector<double> ms;
  std::vector<double> weights(job::workers);
  for (int start = 0; start <= starts; ++start) {
    std::vector<Clock::time_point> ends(job::workers);
    raytrain::Trainer<raytrain::TorchBackend> trainer{
        [&](raytrain::TorchContext& ctx) {
          auto const rank = ctx.world_rank().value;
          ends[rank] = train(ctx, model, start, weights[rank]);
        },
        {.scaling = {.num_workers = job::workers, .resources_per_worker = {.cpus = 1}},
         .run = {.name = "restored",
                 .storage_path = "runs",
                 .resume = start == 0 ? raytrain::Resume::fresh : raytrain::Resume::automatic,
                 .seed = job::seed},
         .datasets = {{"train", dataset}}}};
    auto const begin = Clock::now();
    if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
    auto const last = *std::ranges::max_element(ends);
    if (start > 0) ms.push_back(1e3 * std::chrono::duration<double>{last - begin}.count());
  }
  std::ranges::sort(ms);
  std::printf("{\"restored_ms\": %.3f}\n", ms.at(ms.size() / 2));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "restored: %s\n", error.what());
  return 1;
}
