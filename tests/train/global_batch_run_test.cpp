// SPDX-License-Identifier: Apache-2.0
// Runs whose steps are of so many samples, whatever the number of workers.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "minimal_run.hpp"

namespace {

/// Takes so many batches of 12 rows, of which all workers together have `global_batch_size`, and reports.
struct Steps {
  std::int64_t global_batch_size;
  std::size_t most;
  ShardPosition start{};
  std::atomic<std::size_t> rows = 0;

  void operator()(TrainContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    std::size_t taken = 0;
    for (auto const batch : shard.batches({.global_batch_size = global_batch_size, .start = start})) {
      rows += batch.size();
      if (++taken == most) break;
    }
    ctx.report(Epoch{}, ctx.world_rank() == Rank{0} ? draft("x") : CheckpointDraft{});
  }
};

auto fit(TemporaryFolder const& folder, WorkerCount workers, Steps& steps, int virtual_shards = 0) -> Result {
  std::vector<float> x(12);
  std::iota(x.begin(), x.end(), 0.F);
  return MinimalTrainer{[&steps](TrainContext& ctx) { steps(ctx); },
                        {.scaling = {.num_workers = workers, .virtual_shards = virtual_shards},
                         .run = {.name = "run", .storage_path = folder.path()},
                         .datasets = {{"train", Dataset::from_columns({{"x", std::move(x)}})}}}}
      .fit();
}

}  // namespace

TEST_CASE("another number of workers goes on within an epoch in the same steps, without a warning") {
  TemporaryFolder const folder;
  Steps first{.global_batch_size = 4, .most = 1};
  CHECK(fit(folder, 2, first).checkpoint()->batch_size("train") == 2);
  CHECK(first.rows == 4);
  Steps second{.global_batch_size = 4, .most = 1, .start = {0, 4}};
  auto const result = fit(folder, 4, second);
  CHECK(second.rows == 4);
  CHECK(result.warnings.empty());
  CHECK(result.checkpoint()->batch_size("train") == 1);
}

TEST_CASE("another global batch size within an epoch is warned of, also where each worker's part is as before") {
  TemporaryFolder const folder;
  Steps first{.global_batch_size = 4, .most = 1};
  fit(folder, 2, first);
  Steps second{.global_batch_size = 2, .most = 1, .start = {0, 4}};
  auto const result = fit(folder, 1, second);
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings[0], "of which 4 samples are done in batches of 4; batches are of 2 now");
}

TEST_CASE("an elastic run refuses a global batch that some number of its workers cannot share, at its first batch") {
  TemporaryFolder const folder;
  Steps steps{.global_batch_size = 4, .most = 1};
  contains(message_of([&] {
             fit(folder, {1, 3}, steps);
           }),
           "4 samples cannot be divided equally over 3 workers, of which this run may have 1 to 3; write 6");
  CHECK(steps.rows == 0);
  Steps divided{.global_batch_size = 6, .most = 1};
  CHECK(fit(folder, {1, 3}, divided).state == RunState::finished);
  CHECK(divided.rows == 6);
}
