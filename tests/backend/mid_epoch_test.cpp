// SPDX-License-Identifier: Apache-2.0
// The training function that the README shows: its checkpoints lie within an epoch.
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
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

TEST_CASE(
    "a restore that is not given the shard of the epoch that a checkpoint is within warns of what becomes of it") {
  enum class Given { nothing, shard, before, renamed };
  struct Case {
    Given given;
    bool hands_over;
    std::int64_t epoch;
    char const* warning;
  };
  auto const begin = std::string{
      "the checkpoint is within epoch 1 of dataset 'train', of which 24 samples are done, "
      "and restore() was given no shard of that name: "};
  auto const end = std::string{"; give it the shard of 'train', unless the program leaves its epochs there"};
  constexpr auto skipped = "the rest of that epoch is skipped";
  constexpr auto again = "that epoch begins anew, with those samples, too";
  for (auto const& [given, hands_over, epoch, warning] : {Case{Given::nothing, false, 2, skipped},
                                                          {Given::nothing, true, 1, again},
                                                          {Given::renamed, false, 2, skipped},
                                                          {Given::before, false, 2, nullptr},
                                                          {Given::shard, false, 1, nullptr},
                                                          {Given::shard, true, 1, nullptr}}) {
    CAPTURE(static_cast<int>(given));
    CAPTURE(hands_over);
    raytrain::testing::TemporaryFolder const folder;
    std::int64_t restored = -1;
    auto const rows = raytrain::Dataset::from_columns({{"x", std::vector<float>(64)}});
    raytrain::TrainerConfig<raytrain::MpiBackend> config{.scaling = {.num_workers = 2},
                                                         .run = {.name = "run", .storage_path = folder.path()},
                                                         .datasets = {{"train", rows}, {"valid", rows}}};
    struct KeepStop : raytrain::Callback {
      void on_start(raytrain::RunInfo const& info) override { stop = info.request_stop; }
      std::function<void()> stop;
    };
    auto const stopper = std::make_shared<KeepStop>();
    config.callbacks.push_back(stopper);
    auto const train = [&](raytrain::MpiContext& ctx) {
      std::vector<double> sum(1);
      auto shard = ctx.dataset_shard("train");
      for (auto number = 0; number < 2; ++number) {
        auto valid = ctx.dataset_shard("valid");
        for (auto const& batch : valid.batches({.batch_size = 4, .epoch = 7})) {  // looks at one of an epoch far off
          if (batch.size() > 0) break;
        }
        auto batches = 0;
        for (auto const& batch : shard.batches({.batch_size = 4, .epoch = number})) {
          if (batch.size() == 0 || number == 0 || ++batches < 3) continue;
          if (!hands_over) return ctx.report(Sums{number, 0}, raytrain::save({{"sum", sum}}));
          ctx.barrier();  // else the stop may end the other one in its report before
          if (ctx.world_rank() == raytrain::Rank{0}) stopper->stop();
          while (!ctx.stop_requested()) ctx.barrier();
          ctx.hand_over(raytrain::save({{"sum", sum}}));
        }
        ctx.report(Sums{number, 0}, raytrain::save({{"sum", sum}}));
      }
    };
    auto const begun = raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
    CHECK(begun.checkpoint().value().is_handed_over() == hands_over);
    if (given == Given::renamed) {
      config.datasets = {{"pictures", rows}, {"valid", rows}};
      config.data.datasets_to_split = {"pictures"};
    }
    auto const go_on = [&, given = given](raytrain::MpiContext& ctx) {
      std::vector<double> sum(1);
      auto shard = ctx.dataset_shard(given == Given::renamed ? "pictures" : "train");
      if (given == Given::before) (void)ctx.restore(shard);
      auto const first = given == Given::nothing || given == Given::before ? ctx.restore({{"sum", sum}})
                                                                           : ctx.restore(shard, {{"sum", sum}});
      if (ctx.world_rank() == raytrain::Rank{0}) restored = first;
    };
    auto const result = raytrain::Trainer<raytrain::MpiBackend>{go_on, config}.fit();
    CHECK(restored == epoch);
    auto const told = [&] {
      std::vector<std::string> texts;
      for (auto const& text : result.warnings) {
        if (text.find("the checkpoint is within") != std::string::npos) texts.push_back(text);
      }
      return texts;
    }();
    CHECK(told == (warning == nullptr ? std::vector<std::string>{} : std::vector{begin + warning + end}));
  }
}

TEST_CASE("a second dataset whose epoch begins anew, since restore() was not given its shard, is warned of") {
  enum class Given { one, both, another_epoch };
  for (auto const given : {Given::one, Given::both, Given::another_epoch}) {
    CAPTURE(static_cast<int>(given));
    raytrain::testing::TemporaryFolder const folder;
    auto const rows = raytrain::Dataset::from_columns({{"x", std::vector<float>(64)}});
    raytrain::TrainerConfig<raytrain::MpiBackend> config{
        .scaling = {.num_workers = 2},
        .run = {.name = "run", .storage_path = folder.path()},
        .data = {.datasets_to_split = {"train", "beside"}},
        .datasets = {{"train", rows}, {"beside", rows}, {"valid", rows}}};
    auto const train = [&](raytrain::MpiContext& ctx) {
      std::vector<double> sum(1);
      auto shard = ctx.dataset_shard("train");
      auto beside = ctx.dataset_shard("beside");
      auto const epoch = ctx.restore(shard, {{"sum", sum}});
      if (given == Given::both) (void)ctx.restore(beside);
      auto const of_beside = given == Given::another_epoch && ctx.checkpoint() ? epoch + 1 : epoch;
      auto batches = beside.batches({.batch_size = 4, .epoch = of_beside});
      auto other = batches.begin();
      for (auto const& batch : shard.batches({.batch_size = 4, .epoch = epoch})) {
        if (batch.size() == 0 || (*other).size() == 0) continue;
        for (auto const& looked_at : ctx.dataset_shard("valid").batches({.batch_size = 4, .epoch = epoch})) {
          if (looked_at.size() > 0) break;
        }
        ++other;
        return ctx.report(Sums{epoch, 0}, raytrain::save({{"sum", sum}}));
      }
    };
    (void)raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
    auto const result = raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
    std::vector<std::string> told;
    for (auto const& text : result.warnings) {
      if (text.find("the checkpoint is within") != std::string::npos) told.push_back(text);
    }
    if (given != Given::one) {
      CHECK(told.empty());
      continue;
    }
    CHECK(told == std::vector<std::string>{
                      "the checkpoint is within epoch 0 of dataset 'beside', of which 8 samples are done, and "
                      "restore() was given no shard of that name: that epoch begins anew, with those samples, too; "
                      "give it the shard of 'beside', unless the program leaves its epochs there"});
  }
}
