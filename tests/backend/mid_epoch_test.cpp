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

struct Position {
  std::int64_t epoch = 0;
  std::uint64_t samples = 0;  // of that epoch, done by all workers together
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(samples)); }
};

void train(raytrain::MpiContext& ctx) {
  std::vector<double> sum(1);
  raytrain::ShardPosition next;
  if (auto const checkpoint = ctx.checkpoint()) {
    raytrain::load(*checkpoint, {{"sum", sum}});
    auto const position = raytrain::metrics_cast<Position>(checkpoint->metrics());
    next = {position.epoch, position.samples};
  }
  auto shard = ctx.dataset_shard("train");
  for (auto epoch = next.epoch; epoch < 3; ++epoch) {
    for (auto const& batch : shard.batches({.batch_size = 4, .epoch = epoch, .start = next})) {
      std::vector<float> x(batch.size());
      batch.gather<float>("x", x);
      sum[0] += ctx.sum(std::reduce(x.begin(), x.end()));
      next = shard.position();
      ctx.report(Position{next.epoch, next.samples}, raytrain::save({{"sum", sum}}));
    }
  }
}

}  // namespace

TEST_CASE(
    "the README's training function goes on at the next sample, by another number of workers, wherever it stopped") {
  raytrain::testing::TemporaryFolder const folder;
  std::vector<float> x(64);
  auto all = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) all += x[i] = static_cast<float>(1U << (i % 16));
  raytrain::TrainerConfig<raytrain::MpiBackend> config{
      // A report returns when callbacks have had it, so that a stop that they ask for is there at the next one.
      .run = {.name = "run", .storage_path = folder.path(), .checkpoint = {.mode = raytrain::CheckpointMode::sync}},
      .datasets = {{"train", raytrain::Dataset::from_columns({{"x", x}})}}};

  struct StopAtReport : raytrain::Callback {
    void on_start(raytrain::RunInfo const& info) override { stop = info.request_stop; }
    void on_report(raytrain::Report const& report, raytrain::Metrics const&) override {
      if (report.rank == raytrain::Rank{0}) stop();
    }
    std::function<void()> stop;
  };
  auto const fit = [&](bool is_stopped) {
    config.callbacks.clear();
    if (is_stopped) config.callbacks.push_back(std::make_shared<StopAtReport>());
    return raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
  };
  std::int64_t done_before = 0;
  for (auto const workers : {2, 1, 4, 2, 1, 2}) {
    config.scaling.num_workers = workers;
    auto const stopped = fit(true);
    CHECK(stopped.state == raytrain::RunState::aborted);
    auto const position = raytrain::metrics_cast<Position>(stopped.checkpoint().value().metrics());
    auto const done = position.epoch * 64 + static_cast<std::int64_t>(position.samples);
    CHECK(done > done_before);
    done_before = done;
  }
  auto const result = fit(false);
  CHECK(result.state == raytrain::RunState::finished);
  std::vector<double> sum(1);
  raytrain::load(result.checkpoint().value(), {{"sum", sum}});
  CHECK(sum[0] == 3 * all);
}
