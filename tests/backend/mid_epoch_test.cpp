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

struct Place {
  std::int64_t epoch = 0;
  std::uint64_t samples = 0;  // of that epoch, done by all workers together
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(samples)); }
};

void train(raytrain::MpiContext& ctx) {
  std::vector<double> sum(1);
  raytrain::ShardPosition next;
  if (auto const checkpoint = ctx.checkpoint()) {
    raytrain::load(*checkpoint, {{"sum", sum}});
    auto const place = raytrain::metrics_cast<Place>(checkpoint->metrics());
    next = {place.epoch, place.samples};
  }
  auto shard = ctx.dataset_shard("train");
  for (auto epoch = next.epoch; epoch < 3; ++epoch) {
    for (auto const& batch : shard.batches({.batch_size = 4, .epoch = epoch, .start = next})) {
      std::vector<float> x(batch.size());
      batch.gather<float>("x", x);
      sum[0] += ctx.sum(std::reduce(x.begin(), x.end()));
      next = shard.position();
      ctx.report(Place{next.epoch, next.samples}, raytrain::save({{"sum", sum}}));
    }
  }
}

}  // namespace

TEST_CASE(
    "the README's training function goes on at the next sample, by another number of workers, wherever it stopped") {
  raytrain::testing::TemporaryFolder const folder;
  std::vector<float> x(32);
  auto all = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) all += x[i] = static_cast<float>(1U << (i % 16));
  raytrain::TrainerConfig<raytrain::MpiBackend> config{
      .run = {.name = "run", .storage_path = folder.path()},
      .datasets = {{"train", raytrain::Dataset::from_columns({{"x", x}})}}};

  struct StopAt : raytrain::Callback {
    explicit StopAt(std::uint64_t reports) : left{reports} {}
    void on_start(raytrain::RunInfo const& info) override { stop = info.request_stop; }
    void on_report(raytrain::Report const& report, raytrain::Metrics const&) override {
      if (report.rank == raytrain::Rank{0} && --left == 0) stop();
    }
    std::uint64_t left;
    std::function<void()> stop;
  };
  auto stops = 0;
  for (auto const workers : {2, 1, 4, 2, 1, 2}) {
    config.scaling.num_workers = workers;
    config.callbacks = {std::make_shared<StopAt>(3)};
    stops += raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit().state == raytrain::RunState::aborted ? 1 : 0;
  }
  CHECK(stops > 1);
  config.callbacks = {};
  auto const result = raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
  CHECK(result.state == raytrain::RunState::finished);
  std::vector<double> sum(1);
  raytrain::load(result.checkpoint().value(), {{"sum", sum}});
  CHECK(sum[0] == 3 * all);
}
