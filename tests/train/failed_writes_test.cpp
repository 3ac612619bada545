// SPDX-License-Identifier: Apache-2.0
// Runs whose checkpoints cannot be written, now and then or any more.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/testing/faulty_store.hpp>

#include "minimal_run.hpp"

namespace {

using testing::FaultyStore;
using Texts = std::vector<std::string>;

// Two workers, each of which has a part. `fails` says of the n-th time, from 0, that a step is taken whether it fails.
class BadDisk {
 public:
  BadDisk(std::string step, std::function<bool(int)> fails) : step_{std::move(step)}, fails_{std::move(fails)} {}

  auto config(CheckpointConfig checkpoint, int max_failures = 0) -> MinimalConfig {
    checkpoint.store = [this](std::filesystem::path const& run_path) {
      return std::make_shared<FaultyStore>(std::make_shared<DirectoryStore>(run_path / "checkpoints"),
                                           [this](std::string_view step) { before(step); });
    };
    return {.scaling = {.num_workers = 2},
            .run = {.name = "run",
                    .storage_path = folder_.path(),
                    .checkpoint = std::move(checkpoint),
                    .failure = {.max_failures = max_failures, .backoff = std::chrono::milliseconds{0}}}};
  }

  [[nodiscard]] auto times() const -> int { return times_; }

  [[nodiscard]] auto committed() const -> std::size_t {
    return Result::from_path(folder_.path() / "run").checkpoints.size();
  }

  // What lies in the store, by the states that it holds; and nothing else does.
  [[nodiscard]] auto texts() const -> Texts {
    Texts texts;
    for (auto const& checkpoint : Result::from_path(folder_.path() / "run").checkpoints) {
      checkpoint.verify();
      texts.push_back(text_in(checkpoint));
      CHECK(text_of(checkpoint.read("rank_0001/state.txt")) == texts.back());
    }
    std::size_t entries = 0;
    for (auto const& entry : std::filesystem::directory_iterator{folder_.path() / "run/checkpoints"}) {
      CAPTURE(entry.path());
      ++entries;
    }
    CHECK(entries == texts.size());
    return texts;
  }

 private:
  void before(std::string_view step) {
    if (step == step_ && fails_(times_++)) throw Error{Errc::io, "writing to it", "failed: no space left", "free some"};
  }

  TemporaryFolder folder_;
  std::string step_;
  std::function<bool(int)> fails_;
  std::atomic<int> times_{0};
};

void report_part(TrainContext& ctx, int epoch) {
  CheckpointDraft part;
  part.add(ctx.world_rank() == Rank{0} ? "state.txt" : "rank_0001/state.txt", std::to_string(epoch));
  ctx.report(Epoch{epoch, 0}, std::move(part));
}

// Three, each of which is written, or not, before the next one.
void three_epochs(TrainContext& ctx) {
  for (auto epoch = 0; epoch < 3; ++epoch) report_part(ctx, epoch);
}

constexpr auto lost_warning =
    "goes on without a checkpoint that could not be written (CheckpointConfig::on_failed_write): writing to it: "
    "failed: "
    "no space left; free some";

}  // namespace

TEST_CASE("a run that is to go on without a checkpoint warns of it, keeps those before and writes the next one") {
  // The parts of both ranks, one of them, and the commit.
  for (auto const& [step, first, last] :
       {std::tuple{"write_part", 2, 3}, std::tuple{"write_part", 3, 3}, std::tuple{"publish", 1, 1}}) {
    CAPTURE(step);
    CAPTURE(first);
    BadDisk disk{step, [first = first, last = last](int time) { return time >= first && time <= last; }};
    auto const result =
        MinimalTrainer{three_epochs,
                       disk.config({.mode = CheckpointMode::sync, .on_failed_write = OnFailedWrite::warn})}
            .fit();
    CHECK(result.state == RunState::finished);
    CHECK(result.warnings == Texts{lost_warning});
    CHECK(result.history.size() == 3);
    CHECK(disk.texts() == Texts{"0", "2"});
  }
}

TEST_CASE("a run that goes on without a checkpoint does not wait for it where training goes on meanwhile") {
  for (std::string const step : {"write_part", "publish"}) {
    CAPTURE(step);
    BadDisk disk{step, [](int time) { return time > 0 && time < 30; }};  // more than are waited for together
    auto config = disk.config({.on_failed_write = OnFailedWrite::warn});
    config.scaling.num_workers = 1;
    auto const train = [](TrainContext& ctx) {
      for (auto epoch = 0; epoch < 32; ++epoch) ctx.report(Epoch{epoch, 0}, draft(std::to_string(epoch)));
    };
    auto const began = std::chrono::steady_clock::now();
    auto const result = MinimalTrainer{train, config}.fit();
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{15});  // each wait would take a second
    CHECK(result.warnings == Texts(29, lost_warning));
    Texts texts;
    for (auto const& checkpoint : result.checkpoints) texts.push_back(text_in(checkpoint));
    CHECK(texts == Texts{"0", "30", "31"});
  }
}

TEST_CASE(
    "a write that a disk refuses at once is no cheap checkpoint: by an automatic interval the next report is due") {
  BadDisk disk{"write_part", [](int time) { return time == 0; }};
  // Twice the square root of what any committed one costs is longer than this test.
  auto config = disk.config(
      {.every = CheckpointInterval::automatic(std::chrono::hours{1'000'000}), .on_failed_write = OnFailedWrite::warn});
  config.scaling.num_workers = 1;
  auto const train = [&](TrainContext& ctx) {
    for (auto epoch = 0; epoch < 100'000 && disk.times() < 2; ++epoch)
      ctx.report(Epoch{epoch, 0}, draft(std::to_string(epoch)));
    CHECK(disk.times() == 2);
  };
  CHECK(MinimalTrainer{train, config}.fit().warnings == Texts{lost_warning});
}

TEST_CASE("a run whose last checkpoint could not be written fails in the end, with all that it has reached") {
  for (auto const& [step, first] : {std::pair{"write_part", 4}, std::pair{"publish", 2}}) {
    CAPTURE(step);
    BadDisk disk{step, [&](int time) { return time >= first; }};
    MinimalTrainer trainer{three_epochs,
                           disk.config({.mode = CheckpointMode::sync, .on_failed_write = OnFailedWrite::warn}, 5)};
    try {
      trainer.fit();
      FAIL("it has not failed");
    } catch (TrainingFailed const& failed) {
      contains(failed.what(), "writing to it: failed: no space left; free some");
      CHECK(failed.result().history.size() == 3);
      CHECK(failed.result().warnings == Texts{lost_warning});
      CHECK(failed.result().attempts.size() == 1);
    }
    CHECK(disk.texts() == Texts{"0", "1"});
  }
}

TEST_CASE("a run that is not told to go on fails by what hindered the write, or its workers are started again") {
  std::atomic<bool> is_full{true};
  BadDisk disk{"write_part", [&](int time) { return is_full && time >= 2; }};
  contains(message_of([&] {
             MinimalTrainer{three_epochs, disk.config({.mode = CheckpointMode::sync})}.fit();
           }),
           "no space left");
  CHECK(disk.committed() == 1);
  is_full = false;
  CHECK(text_in(*MinimalTrainer{three_epochs, disk.config({})}.fit().checkpoint()) == "2");
}

TEST_CASE("a state that is held is written in the end, also where the one before could not be") {
  BadDisk disk{"write_part", [](int time) { return time < 2; }};
  MinimalTrainer trainer{three_epochs, disk.config({.every = CheckpointInterval::reports(2)})};
  CHECK(message_of([&] { (void)trainer.fit(); }).find("no space left") != std::string::npos);
  CHECK(disk.texts() == Texts{"2"});
}

TEST_CASE("only what a disk does to a write is gone on without, and no mistake of a program") {
  BadDisk disk{"none", [](int) { return false; }};
  auto const train = [](TrainContext& ctx) {
    CheckpointDraft part;
    part.add("both.txt", "x");
    ctx.report(Epoch{}, std::move(part));
    ctx.report(Epoch{}, CheckpointDraft{});
  };
  contains(message_of([&] {
             MinimalTrainer{train, disk.config({.on_failed_write = OnFailedWrite::warn})}.fit();
           }),
           "rank 0 wrote the file 'both.txt'");
}

TEST_CASE("a write is tried again as often as is said, and then it has failed") {
  for (auto const retries : {2, 1}) {
    CAPTURE(retries);
    BadDisk disk{"write_part", [](int time) { return time == 2 || time == 3; }};  // of the rank that comes first
    MinimalTrainer trainer{
        three_epochs,
        disk.config({.mode = CheckpointMode::sync, .on_failed_write = OnFailedWrite::warn, .write_retries = retries})};
    auto const result = trainer.fit();
    CHECK(disk.times() == 2 + (retries + 1) + 1 + 2);
    CHECK(result.warnings == (retries == 2 ? Texts{} : Texts{lost_warning}));
    CHECK(disk.texts() == (retries == 2 ? Texts{"0", "1", "2"} : Texts{"0", "2"}));
  }
}

TEST_CASE("a pause before another try ends when the run is aborted") {
  std::atomic<bool> is_tried{false};
  BadDisk disk{"write_part", [&](int) {
                 is_tried = true;
                 is_tried.notify_all();
                 return true;
               }};
  auto const train = [&](TrainContext& ctx) {
    report_part(ctx, 0);
    is_tried.wait(false);
    if (ctx.world_rank() == Rank{1}) throw std::runtime_error{"as planned"};
    ctx.barrier();
  };
  // Days, if each pause took its time.
  MinimalTrainer trainer{train, disk.config({.write_retries = 1'000'000})};
  contains(message_of([&] { trainer.fit(); }), "as planned");
}
