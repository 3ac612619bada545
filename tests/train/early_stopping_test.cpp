// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/early_stopping.hpp>

#include <cstddef>
#include <fstream>
#include <limits>
#include <mutex>
#include <vector>

#include "../support/thrown_error.hpp"
#include "minimal_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Which of the values are better than all before.
auto better_ones(BestMetric metric, std::vector<double> const& values) -> std::vector<bool> {
  std::vector<bool> all;
  for (auto const value : values) all.push_back(metric.note(value));
  return all;
}

/// Values by rank: after how many of them each rank's training ends; one more than there are where it does not.
auto ends_at(EarlyStoppingConfig const& config, std::vector<std::vector<double>> const& values)
    -> std::vector<std::size_t> {
  TemporaryFolder const folder;
  std::mutex mutex;
  std::vector<std::size_t> ends(values.size());
  MinimalTrainer{[&](TrainContext& ctx) {
                   EarlyStopping stopping{config};
                   auto const& own = values[ctx.world_rank().value];
                   std::size_t taken = 0;
                   while (!stopping.is_over() && taken < own.size()) stopping.step(ctx, own[taken++]);
                   std::lock_guard const lock{mutex};
                   ends[ctx.world_rank().value] = stopping.is_over() ? taken : own.size() + 1;
                 },
                 {.scaling = {.num_workers = static_cast<int>(values.size())},
                  .run = {.name = "run", .storage_path = folder.path()}}}
      .fit();
  return ends;
}

/// Trains on, one value an epoch, until the training is over; gives the epochs of this start.
auto epochs_with(TemporaryFolder const& folder, int patience, int most, std::vector<double> const& values)
    -> std::vector<int> {
  std::vector<int> trained;
  MinimalTrainer{[&](TrainContext& ctx) {
                   EarlyStopping stopping{{.patience = patience}};
                   if (ctx.checkpoint()) CHECK(stopping.load_from(*ctx.checkpoint()).empty());
                   for (auto epoch = ctx.first_epoch(); epoch < most && !stopping.is_over(); ++epoch) {
                     trained.push_back(epoch);
                     stopping.step(ctx, values[static_cast<std::size_t>(epoch)]);
                     CheckpointDraft draft;
                     stopping.add_to(draft);
                     ctx.report(Epoch{epoch, 1.0}, draft);
                   }
                 },
                 {.run = {.name = "run", .storage_path = folder.path()}}}
      .fit();
  return trained;
}

}  // namespace

TEST_CASE("a value is better only by more than min_delta, in the direction of the mode") {
  CHECK(better_ones(BestMetric{ScoreOrder::min}, {2, 2, 1, 1.5, 0.5}) == std::vector{true, false, true, false, true});
  CHECK(better_ones(BestMetric{ScoreOrder::max}, {2, 2, 1, 3}) == std::vector{true, false, false, true});
  CHECK(better_ones(BestMetric{ScoreOrder::min, 0.5}, {2, 1.5, 1.25}) == std::vector{true, false, true});
  CHECK(better_ones(BestMetric{ScoreOrder::max, 0.5}, {2, 2.5, 2.75}) == std::vector{true, false, true});
}

TEST_CASE("a NaN is never the best value, and the first number always is") {
  auto const infinity = std::numeric_limits<double>::infinity();
  CHECK(better_ones(BestMetric{ScoreOrder::min}, {not_a_number, infinity, not_a_number, 5, not_a_number}) ==
        std::vector{false, true, false, true, false});
}

TEST_CASE("a training ends with the last of so many values that are no better") {
  CHECK(ends_at({.patience = 2}, {{3, 2, 2, 1, 1, 1, 0}}) == std::vector<std::size_t>{6});
  CHECK(ends_at({.patience = 3}, {{3, 2, 2, 1, 1, 1, 0}}) == std::vector<std::size_t>{8});
  CHECK(ends_at({.patience = 1, .mode = ScoreOrder::max}, {{1, 2, 2, 3}}) == std::vector<std::size_t>{3});
  CHECK(ends_at({.patience = 2}, {{not_a_number, not_a_number, 1}}) == std::vector<std::size_t>{2});
  CHECK(ends_at({.patience = 0}, {{1, 1, 1, 1}}) == std::vector<std::size_t>{5});
}

TEST_CASE("all ranks end at the same value, whatever each has of the metric") {
  std::vector<double> const rising{1, 2, 3, 4, 5};
  std::vector<double> const falling{9, 7, 5, 3, 1};  // the mean falls
  CHECK(ends_at({.patience = 2}, {rising, falling}) == std::vector<std::size_t>{6, 6});
  CHECK(ends_at({.patience = 2}, {falling, {1, 4, 7, 10, 13}}) == std::vector<std::size_t>{3, 3});
  CHECK(ends_at({.patience = 2}, {{5, 4, 3, 2}, {5, 4, not_a_number, not_a_number}, {5, 4, 3, 2}}) ==
        std::vector<std::size_t>{4, 4, 4});
}

TEST_CASE("a value that all ranks have is taken as it is, not as a rounded mean") {
  REQUIRE((0.1 + 0.1 + 0.1) / 3 != 0.1);
  TemporaryFolder const folder;
  MinimalTrainer{[&](TrainContext& ctx) {
                   BestMetric metric{ScoreOrder::max};
                   metric.note(0.1);
                   CHECK_FALSE(metric.note(ctx, 0.1));
                 },
                 {.scaling = {.num_workers = 3}, .run = {.name = "run", .storage_path = folder.path()}}}
      .fit();
}

TEST_CASE("a training that was interrupted goes on waiting, and one that was over goes on with more patience") {
  std::vector<double> const values{3, 2, 2, 2, 2, 2, 2, 2};
  TemporaryFolder const folder;
  CHECK(epochs_with(folder, 3, 3, values) == std::vector{0, 1, 2});
  CHECK(epochs_with(folder, 3, 8, values) == std::vector{3, 4});
  CHECK(epochs_with(folder, 3, 8, values).empty());
  CHECK(epochs_with(folder, 5, 8, values) == std::vector{5, 6});
}

TEST_CASE("a file that no early stopping has written is refused, and changes nothing") {
  EarlyStopping stopping;
  for (auto const* const content : {R"({"best": 1.0, "waited": -2})", R"({"best": 1.0, "waited": 2.5})",
                                    R"({"best": 1.0})", R"({"best": "low", "waited": 2})", R"({"best": 1.0, "wai)"}) {
    CAPTURE(std::string{content});
    TemporaryFolder const folder;
    std::ofstream{folder.path() / "early_stopping.json"} << content;
    auto const refusal = thrown_error([&] { (void)stopping.load_from(Checkpoint::from_directory(folder.path())); });
    check_contains(refusal, "invalid_data: ");
    check_contains(refusal, "early_stopping.json");
  }
  CHECK(stopping.waited() == 0);
}

TEST_CASE("early stopping with settings that cannot work is refused") {
  CHECK(thrown_error([] { EarlyStopping{{.patience = -1}}; }) ==
        "invalid_config: EarlyStoppingConfig::patience: must not be negative (got -1); write {.patience = 3}, or 0 for "
        "never");
  check_contains(thrown_error([] { EarlyStopping{{.min_delta = not_a_number}}; }),
                 "EarlyStoppingConfig::min_delta: must be finite and not negative (got nan)");
  check_contains(thrown_error([] { EarlyStopping{{.min_delta = -0.5}}; }), "(got -0.5)");
}
