// SPDX-License-Identifier: Apache-2.0
// RunConfig::resume_from_checkpoint: a run that begins with another run's checkpoint.
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/config/checkpoint_source.hpp>
#include <raytrain/testing/memory_store.hpp>

#include "minimal_run.hpp"

namespace {

auto named(TemporaryFolder const& folder, std::string name, CheckpointSource source = {}) -> MinimalConfig {
  return {.scaling = {.num_workers = 2},
          .run = {.name = std::move(name), .storage_path = folder.path(), .resume_from_checkpoint = std::move(source)}};
}

// A run of three epochs, whose last checkpoint holds "2".
auto base_run(TemporaryFolder const& folder) -> Result {
  return MinimalTrainer{epochs_up_to(3), named(folder, "base")}.fit();
}

// What the workers of a run that reports one checkpoint, "tuned", begin with.
struct Beginning {
  std::string text = "nothing";
  bool is_other_runs = false;
  int epoch = -1;
};
auto tune(std::vector<Beginning>& begins, bool fails = false) {
  return [&begins, fails](TrainContext& ctx) {
    if (ctx.world_rank() == Rank{0}) {
      begins.push_back(
          {ctx.checkpoint() ? text_in(*ctx.checkpoint()) : "nothing", ctx.begins_from_other_run(), ctx.first_epoch()});
    }
    if (fails) throw std::runtime_error{"as planned"};
    ctx.report(Epoch{0, 1}, ctx.world_rank() == Rank{0} ? draft("tuned") : CheckpointDraft{});
  };
}

void check_begins(std::vector<Beginning> const& begins, std::vector<std::string> const& texts) {
  REQUIRE(begins.size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) CHECK(begins[i].text == texts[i]);
}

void damage(Checkpoint const& checkpoint) { std::ofstream{checkpoint.path() / "state.txt"} << "x"; }

class KeepStart : public Callback {
 public:
  void on_start(RunInfo const& info) override { starts.push_back(info); }
  std::vector<RunInfo> starts;
};

}  // namespace

TEST_CASE("a run begins with another run's checkpoint, at its own first epoch and report, and then has its own") {
  TemporaryFolder const folder;
  auto const base = base_run(folder);
  std::vector<Beginning> begins;
  for (CheckpointSource const& source :
       {CheckpointSource{base.checkpoint().value()}, CheckpointSource{base.checkpoint()->path()},
        CheckpointSource{base.checkpoint()->path().string()},
        CheckpointSource{std::filesystem::relative(base.checkpoint()->path())}}) {
    begins.clear();
    auto config = named(folder, "tuned", source);
    auto const callback = std::make_shared<KeepStart>();
    config.callbacks = {callback};
    auto const first = MinimalTrainer{tune(begins), config}.fit();
    check_begins(begins, {"2"});
    CHECK(begins[0].is_other_runs);
    CHECK(begins[0].epoch == 0);
    CHECK(first.warnings.empty());
    REQUIRE(first.history.size() == 1);
    CHECK(first.history[0].training_iteration == 1);
    CHECK(first.history[0].time_total_s < base.history.back().time_total_s + 60);
    REQUIRE(first.checkpoints.size() == 1);
    CHECK(first.checkpoints[0].training_iteration() == 1);
    CHECK(first.attempts.at(0).first_iteration == 0);
    CHECK_FALSE(callback->starts[0].resumed_from.has_value());
    CHECK(callback->starts[0].training_iteration == 0);
    CHECK(callback->starts[0].begins_from->location() == base.checkpoint()->location());

    auto const second = MinimalTrainer{tune(begins), config}.fit();
    check_begins(begins, {"2", "tuned"});
    CHECK_FALSE(begins[1].is_other_runs);
    CHECK(begins[1].epoch == 1);
    CHECK(second.history.size() == 2);
    CHECK_FALSE(callback->starts[1].begins_from.has_value());
    std::filesystem::remove_all(folder.path() / "tuned");
  }
  CHECK(Result::from_path(base.path).checkpoints.size() == 3);
}

TEST_CASE("an empty path and nothing at all name no checkpoint") {
  TemporaryFolder const folder;
  std::vector<Beginning> begins;
  MinimalTrainer{tune(begins), named(folder, "a", std::filesystem::path{})}.fit();
  MinimalTrainer{tune(begins), named(folder, "b", "")}.fit();
  MinimalTrainer{tune(begins), named(folder, "c")}.fit();
  check_begins(begins, {"nothing", "nothing", "nothing"});
  CHECK_FALSE(begins[0].is_other_runs);
}

TEST_CASE("workers that fail before the run has a checkpoint begin with the other run's again") {
  TemporaryFolder const folder;
  auto const base = base_run(folder);
  std::vector<Beginning> begins;
  auto config = named(folder, "tuned", base.checkpoint().value());
  config.run.failure.max_failures = 1;
  CHECK_THROWS_AS((MinimalTrainer{tune(begins, true), config}.fit()), TrainingFailed);
  check_begins(begins, {"2", "2"});

  // In the attempt after one that has reported a checkpoint that one comes first.
  auto const fails_once = [&begins](TrainContext& ctx) {
    tune(begins)(ctx);
    ctx.barrier();
    if (ctx.attempt() == Attempt{}) throw std::runtime_error{"as planned"};
  };
  begins.clear();
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer{fails_once, config}.fit();
  check_begins(begins, {"2", "tuned"});
}

TEST_CASE("a checkpoint to begin with that is missing or damaged is an error before any worker starts") {
  TemporaryFolder const folder;
  auto const base = base_run(folder);
  std::vector<Beginning> begins;
  auto const refused = [&](CheckpointSource const& source) {
    return message_of([&] { MinimalTrainer{tune(begins), named(folder, "tuned", source)}.fit(); });
  };
  auto const missing = folder.path() / "no such folder";
  auto text = refused(missing);
  CHECK(contains(text, "RunConfig::resume_from_checkpoint: "));
  CHECK(contains(text, missing.string()));

  auto const last = base.checkpoint().value();
  damage(last);
  for (auto const& source : {CheckpointSource{last}, CheckpointSource{last.path()}}) {
    text = refused(source);
    CHECK(contains(text, "RunConfig::resume_from_checkpoint: reading checkpoint '" + last.location() + "'"));
    CHECK(contains(text, "state.txt"));
  }

  auto const unfinished = base.checkpoints.at(1);
  std::filesystem::remove(unfinished.path() / "manifest.json");
  text = refused(unfinished.path());
  CHECK(contains(text, "RunConfig::resume_from_checkpoint: '" + unfinished.location() + "' has no manifest.json"));
  CHECK(contains(text, "Checkpoint::from_directory(folder)"));
  CHECK(begins.empty());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "tuned"));

  // What is not needed any more need not be whole.
  MinimalTrainer{tune(begins), named(folder, "tuned", base.checkpoints.at(0).path())}.fit();
  std::filesystem::remove_all(base.path);
  MinimalTrainer{tune(begins), named(folder, "tuned", base.checkpoints.at(0).path())}.fit();
  check_begins(begins, {"0", "tuned"});
}

TEST_CASE("a folder that a person has filled is a checkpoint to begin with where it is opened as one") {
  TemporaryFolder const folder;
  std::filesystem::create_directories(folder.path() / "weights");
  std::ofstream{folder.path() / "weights/state.txt"} << "downloaded";
  std::vector<Beginning> begins;
  auto const weights = Checkpoint::from_directory(folder.path() / "weights");
  MinimalTrainer{tune(begins), named(folder, "tuned", weights)}.fit();
  check_begins(begins, {"downloaded"});
}

TEST_CASE("a checkpoint in a store of the program's own is one to begin with") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<testing::MemoryStore::Memory>();
  auto config = named(folder, "base");
  config.run.checkpoint.store = [&](std::filesystem::path const&) {
    return std::make_shared<testing::MemoryStore>(memory);
  };
  auto const base = MinimalTrainer{epochs_up_to(2), config}.fit();
  std::vector<Beginning> begins;
  MinimalTrainer{tune(begins), named(folder, "tuned", base.checkpoint().value())}.fit();
  check_begins(begins, {"1"});
}

TEST_CASE("a fresh start does not delete the checkpoint that it is to begin with, nor anything when that is missing") {
  TemporaryFolder const folder;
  auto const base = base_run(folder);
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "link");
  std::vector<Beginning> begins;
  auto const last = base.checkpoint()->path();
  for (auto const& source : {last, folder.path() / "link/base/checkpoints" / last.filename()}) {
    auto config = named(folder, "base", source);
    config.run.resume = Resume::fresh;
    auto const text = message_of([&] { MinimalTrainer{tune(begins), config}.fit(); });
    CHECK(contains(text, "RunConfig::resume_from_checkpoint names '" + source.string() + "'"));
    CHECK(contains(text, "choose another RunConfig::name"));
  }
  auto config = named(folder, "base", folder.path() / "no such folder");
  config.run.resume = Resume::fresh;
  CHECK(contains(message_of([&] { MinimalTrainer{tune(begins), config}.fit(); }), "no such folder"));
  CHECK(Result::from_path(base.path).checkpoints.size() == 3);
  CHECK(begins.empty());
}

TEST_CASE("an older checkpoint of the run itself is not gone back to, which is warned of") {
  TemporaryFolder const folder;
  auto const base = base_run(folder);
  auto const again = MinimalTrainer{epochs_up_to(3), named(folder, "base", base.checkpoints.at(0))}.fit();
  CHECK(again.nothing_left);
  REQUIRE(again.warnings.size() == 1);
  CHECK(again.warnings[0] ==
        "RunConfig::resume_from_checkpoint names checkpoint 1 of this run itself, which goes on from 3, its newest; to "
        "begin at the other one, choose another RunConfig::name");
  auto const newest = MinimalTrainer{epochs_up_to(3), named(folder, "base", base.checkpoint().value())}.fit();
  CHECK(newest.warnings.empty());
}
