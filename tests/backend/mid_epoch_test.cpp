// SPDX-License-Identifier: Apache-2.0
// The training function that the README shows: its checkpoints lie within an epoch.
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>
#include <cereal/cereal.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

namespace {

struct Sums {
  int epoch = 0;
  double sum = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(sum)); }
};

void train(raytrain::MpiContext& ctx) {
  std::vector<double> sum(1);
  auto shard = ctx.dataset_shard("train");
  for (auto epoch = ctx.restore(shard, {{"sum", sum}}); epoch < 3; ++epoch) {
    for (auto const& batch : shard.batches({.batch_size = 4, .epoch = epoch})) {
      std::vector<float> x(batch.size());
      batch.gather<float>("x", x);
      sum[0] += ctx.sum(std::reduce(x.begin(), x.end()));
      if (ctx.stop_requested()) ctx.hand_over(raytrain::save({{"sum", sum}}));
    }
    ctx.report(Sums{epoch, sum[0]}, raytrain::save({{"sum", sum}}));
  }
}

}  // namespace

TEST_CASE(
    "the README's training function goes on at the next sample, by another number of workers, wherever it stopped") {
  raytrain::testing::TemporaryFolder const folder;
  std::vector<float> x(64'000);
  auto all = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) all += x[i] = static_cast<float>(1U << (i % 16));
  raytrain::TrainerConfig<raytrain::MpiBackend> config{
      .run = {.name = "run", .storage_path = folder.path()},
      .datasets = {{"train", raytrain::Dataset::from_columns({{"x", x}})}}};

  struct StopSoon : raytrain::Callback {
    void on_start(raytrain::RunInfo const& info) override { stop = info.request_stop; }
    void on_worker_start(raytrain::Started const& worker) override {
      if (worker.rank == raytrain::Rank{0}) stop();
    }
    std::function<void()> stop;
  };
  auto const fit = [&](bool is_stopped) {
    config.callbacks.clear();
    if (is_stopped) config.callbacks.push_back(std::make_shared<StopSoon>());
    return raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
  };
  std::int64_t done_before = 0;
  auto stops_within_epoch = 0;
  for (auto const workers : {2, 1, 4, 2, 1, 2}) {
    config.scaling.num_workers = workers;
    auto const stopped = fit(true);
    if (stopped.state == raytrain::RunState::finished) break;  // it was faster
    auto const position = stopped.checkpoint().value().position("train").value();
    auto const done = position.epoch * 64'000 + static_cast<std::int64_t>(position.samples);
    CHECK(done > done_before);
    stops_within_epoch += position.samples > 0 ? 1 : 0;
    done_before = done;
  }
  CHECK(stops_within_epoch > 0);
  auto const result = fit(false);
  CHECK(result.state == raytrain::RunState::finished);
  std::vector<double> sum(1);
  raytrain::load(result.checkpoint().value(), {{"sum", sum}});
  CHECK(sum[0] == 3 * all);
}
