// SPDX-License-Identifier: Apache-2.0
// Runs whose state is an array that is spread over the workers, however many they are.
#include <raytrain/trainer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "minimal_run.hpp"

namespace {

constexpr std::size_t points = 1000;  // of which 3 workers and 7 have uneven shares

/// Adds 1 to each element in each epoch. `step` is called before the report of each.
auto counting_with(int epochs, std::function<void(TrainContext&, int epoch)> step) {
  return [epochs, step = std::move(step)](TrainContext& ctx) {
    auto const rank = ctx.world_rank().value, size = ctx.world_size().value;
    auto const begin = points * rank / size;
    std::vector<double> field(points * (rank + 1) / size - begin);
    for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<double>(begin + i);
    if (ctx.checkpoint()) ctx.checkpoint()->read_slice<double>("field", begin, field);
    auto const state = CheckpointDraft::sharded(
        [&](CheckpointDraft& draft) { draft.add_slice<double>("field", {.begin = begin, .total = points}, field); });
    for (auto epoch = ctx.first_epoch(); epoch < epochs; ++epoch) {
      step(ctx, epoch);
      if (ctx.stop_requested()) ctx.hand_over(state);
      for (auto& value : field) value += 1;
      ctx.report(Epoch{epoch, 0}, state);
    }
  };
}

auto is_counted(Checkpoint const& checkpoint, int epochs) -> bool {
  std::vector<double> field(points);
  checkpoint.read_slice<double>("field", 0, field);
  for (std::size_t i = 0; i < points; ++i) {
    if (field[i] != static_cast<double>(i) + epochs) return false;
  }
  return true;
}

auto config_of(TemporaryFolder const& folder, WorkerCount workers) -> MinimalConfig {
  return {.scaling = {.num_workers = workers}, .run = {.name = "r", .storage_path = folder.path()}};
}

}  // namespace

TEST_CASE("an array that n workers have saved is loaded by the m workers of the next start, without a change") {
  TemporaryFolder const folder;
  auto epochs = 0;
  for (auto const workers : {1, 2, 8, 4, 3, 1, 3}) {
    CAPTURE(workers);
    epochs += 2;
    auto const result =
        MinimalTrainer{counting_with(epochs, [](TrainContext&, int) {}), config_of(folder, workers)}.fit();
    CHECK(result.checkpoint()->world_size().value == static_cast<std::uint32_t>(workers));
    CHECK(is_counted(*result.checkpoint(), epochs));
  }
}

TEST_CASE(
    "an array is that of an undisturbed run, although workers learn in different epochs that their number changes") {
  TemporaryFolder const folder;
  std::vector<std::uint32_t> const wanted{4, 2, 5, 3};
  std::unique_ptr<MinimalTrainer> trainer;
  auto const step = [&](TrainContext& ctx, int epoch) {
    auto const attempt = ctx.attempt().value;
    if (attempt > wanted.size() || epoch < static_cast<int>(2 * attempt)) return;
    if (ctx.world_rank() == Rank{0}) trainer->resize(wanted[attempt - 1]);
    while (!ctx.stop_requested()) ctx.barrier();
  };
  auto config = config_of(folder, {1, 5});
  config.scaling.resources_per_worker.cpus = 100'000;  // so that the run begins with the fewest
  trainer = std::make_unique<MinimalTrainer>(counting_with(12, step), config);
  auto const result = trainer->fit();
  CHECK(result.state == RunState::finished);
  REQUIRE(result.attempts.size() == 1 + wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(result.attempts[i + 1].world_size.value == wanted[i]);
  CHECK(is_counted(*result.checkpoint(), 12));
}

TEST_CASE("a run whose workers leave elements out fails, and its error says which") {
  TemporaryFolder const folder;
  auto const train = [](TrainContext& ctx) {
    CheckpointDraft draft;
    std::vector<float> const two(2);
    draft.add_slice<float>("field", {.begin = 3U * ctx.world_rank().value, .total = 5}, two);
    ctx.report(Epoch{}, draft);
  };
  auto const message = message_of([&] { (void)MinimalTrainer{train, config_of(folder, 2)}.fit(); });
  CHECK(contains(message, "of the sharded array 'field' no rank gave element 2 of 5"));
}
