// SPDX-License-Identifier: Apache-2.0
// Lets heat spread along a rod whose points are spread over the workers, and goes on with any other number of them.
// Run ./examples/run heat --workers 3 --epochs 10, then ./examples/run heat --ranks 2; expect the bits of one worker.
#include <sysexits.h>

#include <array>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cereal/types/array.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

namespace {

constexpr std::size_t points = 10'000;
constexpr int steps = 50;  // in an epoch

struct Options {
  int workers = 0;
  int epochs = 20;
  std::filesystem::path storage = "runs";
  bool fresh = false;
};

struct Epoch {
  int epoch = 0;
  double first = 0;  // temperature of the rod's first point
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(first));
  }
};

// Those of the rod from `begin` to `end`: one half is hot.
auto first_temperatures(std::size_t begin, std::size_t end) -> std::vector<double> {
  std::vector<double> heat;
  for (auto point = begin; point < end; ++point) heat.push_back(point < points / 2 ? 100 : 0);
  return heat;
}

// One step of a part of the rod; its neighbours' temperatures are `left` and `right`.
void step(std::vector<double>& heat, double left, double right) {
  for (std::size_t i = 0; i < heat.size(); ++i) {
    auto const next = i + 1 < heat.size() ? heat[i + 1] : right;
    auto const change = (left - heat[i]) + (next - heat[i]);
    left = std::exchange(heat[i], heat[i] + change / 4);
  }
}

void train(raytrain::MpiContext& ctx, Options const& options) {
  auto const rank = ctx.world_rank().value, workers = ctx.world_size().value;
  auto const begin = points * rank / workers, end = points * (rank + 1) / workers;
  auto heat = first_temperatures(begin, end);
  if (ctx.checkpoint()) ctx.checkpoint()->read_slice<double>("heat", begin, heat);
  for (auto epoch = ctx.first_epoch(); epoch < options.epochs; ++epoch) {
    for (int i = 0; i < steps; ++i) {
      auto const edges = ctx.all_gather(std::array{heat.front(), heat.back()});
      step(heat, rank > 0 ? edges[rank - 1].back() : heat.front(),
           rank + 1 < workers ? edges[rank + 1].front() : heat.back());
    }
    ctx.report(Epoch{epoch, heat.front()}, raytrain::CheckpointDraft::sharded([&](raytrain::CheckpointDraft& draft) {
                 draft.add_slice<double>("heat", {.begin = begin, .total = points}, heat);
               }));
  }
}

auto run(Options const& options) -> int {
  auto const job = raytrain::job_environment();
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : 2;
  raytrain::TrainerConfig<raytrain::MpiBackend> const config{
      .scaling = {.num_workers = workers},
      .run = {.name = "heat",
              .storage_path = options.storage,
              .checkpoint = {.num_to_keep = 2},
              .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic}};
  auto const result = raytrain::Trainer<raytrain::MpiBackend>{train, options, config}.fit();
  if (result.state == raytrain::RunState::aborted) return EX_TEMPFAIL;
  auto const epochs = raytrain::metrics_cast<Epoch>(result.metrics).epoch + 1;
  auto alone = first_temperatures(0, points);
  for (int i = 0; i < epochs * steps; ++i) step(alone, alone.front(), alone.back());
  std::vector<double> heat(points);
  result.checkpoint().value().read_slice<double>("heat", 0, std::span{heat});
  if (raytrain::is_first_of_job()) {
    fmt::print("{} epochs, at last on {} workers: {:.3f} degrees in the middle, {}\n", epochs, result.world_size.value,
               heat[points / 2], heat == alone ? "the same bits as on one worker" : "not what one worker computes");
  }
  return heat == alone ? 0 : 1;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Lets heat spread along a rod. Run again, it goes on, with any number of workers."};
  app.option_defaults()->always_capture_default();
  app.add_option("--workers", options.workers,
                 "threads that work together, ScalingConfig::num_workers; 0: 2, or the ranks of the job")
      ->check(CLI::Range(0, 1000));
  app.add_option("--epochs", options.epochs, "of 50 steps")->check(CLI::PositiveNumber);
  app.add_option("--storage", options.storage, "folder for the run's reports and checkpoints: RunConfig::storage_path");
  app.add_flag("--fresh", options.fresh, "delete the run that is there, and start anew: Resume::fresh");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
