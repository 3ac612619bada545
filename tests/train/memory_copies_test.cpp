// SPDX-License-Identifier: Apache-2.0
// The newest checkpoint in memory, on threads: CheckpointConfig::memory_copies.
#include <raytrain/trainer.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/train/checkpoint_stager.hpp>

#include "../support/function_queue.hpp"
#include "../support/watched_reads.hpp"
#include "minimal_run.hpp"

namespace {

using namespace std::chrono_literals;

constexpr int epochs = 8;
constexpr int disturbed = 5;

// A state that counts how many of it are in memory.
class CountedState {
 public:
  [[nodiscard]] auto draft(int epoch) -> CheckpointDraft {
    return CheckpointDraft::replicated([this, epoch](CheckpointDraft& part) {
      auto const text = std::make_shared<std::string>(std::to_string(epoch));
      most_ = std::max(most_.load(), ++*count_);
      std::shared_ptr<std::string> const counted{text.get(), [text, count = count_](std::string*) { --*count; }};
      part.add("state.txt", SharedBytes{bytes_of(*counted), counted});
    });
  }
  [[nodiscard]] auto in_memory() const -> int { return *count_; }
  [[nodiscard]] auto most() const -> int { return most_; }

 private:
  std::shared_ptr<std::atomic<int>> count_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<int> most_{0};
};

// A run of which rank 1 fails in one epoch of its first attempts, and what its attempts after the first read.
class RunThatFails {
 public:
  explicit RunThatFails(CheckpointConfig checkpoint, std::uint64_t failures = 1) : failures_{failures} {
    checkpoint.store = testing::watched_store([this](std::string const&) {
      if (fails_) ++reads;
    });
    config_ = {.scaling = {.num_workers = 2},
               .run = {.name = "run",
                       .storage_path = folder_.path(),
                       .checkpoint = std::move(checkpoint),
                       .failure = {.max_failures = static_cast<int>(failures), .backoff = 0ms}}};
  }

  auto fit() -> Result {
    MinimalTrainer trainer{[this](TrainContext& ctx) { train(ctx); }, config_};
    return trainer.fit();
  }

  std::atomic<int> reads{0};
  CountedState state;
  std::vector<int> begun_at;                   // of rank 0, by attempt
  std::optional<Checkpoint> outlives_the_run;  // a checkpoint to go on from

 private:
  void train(TrainContext& ctx) {
    auto const first = ctx.checkpoint() ? std::stoi(text_in(*ctx.checkpoint())) + 1 : 0;
    if (ctx.world_rank() == Rank{0}) {
      begun_at.push_back(first);
      if (ctx.checkpoint()) outlives_the_run = ctx.checkpoint();
    }
    for (auto epoch = first; epoch < epochs; ++epoch) {
      ctx.barrier();
      auto const fails = epoch == disturbed && ctx.attempt().value <= failures_;
      if (fails) fails_ = true;
      if (fails && ctx.world_rank() == Rank{1}) throw std::runtime_error{"as planned"};
      ctx.report(Epoch{epoch, 1.0 / (epoch + 1)}, state.draft(epoch));
    }
  }

  TemporaryFolder folder_;
  std::uint64_t failures_;
  std::atomic<bool> fails_{false};
  MinimalConfig config_;
};

// Has no room for the third part with files, and none of its files can be read once the run has failed.
class FullDisk final : public DirectoryStore {
 public:
  FullDisk(std::filesystem::path const& directory, std::atomic<bool> const& fails)
      : DirectoryStore{directory}, fails_{fails} {}

  auto write_part(StagedPart const& part, std::map<std::string, CheckpointDraft::Content> const& files)
      -> std::map<std::string, std::string> override {
    if (++parts_ == 3) throw Error{Errc::io, "writing", "the disk is full", "make room"};
    return DirectoryStore::write_part(part, files);
  }
  [[nodiscard]] auto files_of(CheckpointNumber number) const -> std::shared_ptr<CheckpointFiles const> override {
    return testing::WatchedReads{path_of(number).parent_path(),
                                 [&fails = fails_](std::string const&) {
                                   if (fails) throw Error{Errc::io, "reading", "the disk does not answer", "mend it"};
                                 }}
        .files_of(number);
  }

 private:
  std::atomic<bool> const& fails_;
  std::atomic<int> parts_{0};
};

}  // namespace

TEST_CASE("workers that begin again read nothing from the store where a copy is kept, and all of it where none is") {
  struct Policy {
    std::string name;
    CheckpointConfig config;
  };
  std::vector<Policy> const policies{{"asynchronous", {}},
                                     {"sync", {.mode = CheckpointMode::sync}},
                                     {"every", {.every = CheckpointInterval::reports(3)}},
                                     {"replace", {.when_busy = WhenBusy::replace}},
                                     {"skip", {.when_busy = WhenBusy::skip}},
                                     {"one is kept", {.num_to_keep = 1}}};
  for (auto const& [name, policy] : policies) {
    for (auto const copies : {0, 1, 100}) {
      CAPTURE(name);
      CAPTURE(copies);
      auto config = policy;
      config.memory_copies = copies;
      RunThatFails run{config};
      auto const result = run.fit();
      CHECK(result.attempts.size() == 2);
      CHECK((run.reads == 0) == (copies > 0));
      if (name == "skip") continue;  // the last ones as well, if the disk is busy
      CHECK(result.checkpoint()->metrics().number("epoch") == epochs - 1);
      CHECK(run.begun_at.back() == disturbed);
    }
  }
}

TEST_CASE("beside the copy there is memory for one state more, and none of them outlives the run") {
  for (auto const every : {1, 3}) {
    CAPTURE(every);
    RunThatFails run{{.every = CheckpointInterval::reports(every), .memory_copies = 1}};
    (void)run.fit();
    CHECK(run.state.most() == 2);
    CHECK(run.state.in_memory() == 0);
    REQUIRE(run.outlives_the_run.has_value());
    auto const reads = run.reads.load();
    CHECK(text_in(*run.outlives_the_run) == std::to_string(disturbed - 1));
    CHECK(run.reads == reads + 1);
  }
}

TEST_CASE("an attempt that has committed nothing lets the files in the store be verified") {
  RunThatFails run{{.memory_copies = 1}, 2};
  CHECK(run.fit().attempts.size() == 3);
  CHECK(run.begun_at == std::vector{0, disturbed, disturbed});
  CHECK(run.reads == 1);
}

TEST_CASE("a checkpoint that could not be written leaves the copy of the one before") {
  TemporaryFolder const folder;
  std::atomic<bool> fails{false};
  auto const draft_of = [](TrainContext& ctx, std::string const& text) {
    return ctx.world_rank() == Rank{0} ? draft(text) : CheckpointDraft{};
  };
  auto const train = [&](TrainContext& ctx) {
    if (ctx.attempt() != Attempt{}) {
      CHECK(text_in(*ctx.checkpoint()) == "1");
      return ctx.report(Epoch{3, 0}, draft_of(ctx, "3"));
    }
    for (auto epoch = 0; epoch < 3; ++epoch) ctx.report(Epoch{epoch, 0}, draft_of(ctx, std::to_string(epoch)));
    fails = true;
    if (ctx.world_rank() == Rank{0}) throw std::runtime_error{"as planned"};
    while (!ctx.stop_requested()) ctx.barrier();
  };
  MinimalConfig config{.scaling = {.num_workers = 2},
                       .run = {.name = "run",
                               .storage_path = folder.path(),
                               .checkpoint = {.mode = CheckpointMode::sync,
                                              .on_failed_write = OnFailedWrite::warn,
                                              .memory_copies = 1,
                                              .store =
                                                  [&](std::filesystem::path const& run_path) {
                                                    return std::make_shared<FullDisk>(run_path / "checkpoints", fails);
                                                  }},
                               .failure = {.max_failures = 1, .backoff = 0ms}}};
  auto const result = MinimalTrainer{train, config}.fit();
  CHECK(result.attempts.size() == 2);
  CHECK(result.warnings.size() == 1);
  CHECK(result.checkpoints.size() == 3);
}

TEST_CASE("a neighbour copies what rank 0 writes into the same memory in turns, and writes and tells nothing of it") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), StartId{1}};
  BackgroundThread store_thread;
  std::vector<CheckpointRef> told;
  FunctionQueue queue{[&](WorkerMessage message) { told.push_back(std::get<CheckpointRef>(std::move(message))); }};
  WorkerLink link{{.world_rank = Rank{1}, .world_size = WorldSize{2}}, queue};
  auto const copies = std::make_shared<CheckpointCopies>();
  CheckpointStager stager{
      {.store = store, .store_thread = store_thread, .link = link, .copies = {.kept = copies, .of_replicated = true}}};
  std::vector<std::byte const*> places;
  for (std::uint64_t checkpoint = 0; checkpoint < 6; ++checkpoint) {
    auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
      auto const bytes = part.allocate("model", std::size_t{1} << 20U);
      std::ranges::fill(bytes, static_cast<std::byte>(checkpoint));
      places.push_back(bytes.data());
      part.set_metadata("made by", "a neighbour");
    });
    stager.fill(draft);
    draft.add("rank_0001/own", std::to_string(checkpoint));
    stager.begin_staging(std::move(draft), CheckpointOrdinal{checkpoint}, {});
    stager.finish_staging();
    copies->settle(CheckpointSettled{CheckpointOrdinal{checkpoint}, CheckpointNumber{checkpoint + 1}});
    auto const copy = copies->find(CheckpointNumber{checkpoint + 1}, "model");
    REQUIRE(copy.has_value());
    CHECK(copy->view().front() == static_cast<std::byte>(checkpoint));
    CHECK(copies->find(CheckpointNumber{checkpoint + 1}, "rank_0001/own").has_value());
  }
  CHECK(places[0] != places[1]);
  CHECK(places == std::vector{places[0], places[1], places[0], places[1], places[0], places[1]});
  for (auto const& ref : told) {
    CHECK(ref.metadata.empty());
    REQUIRE(ref.files.size() == 1);
    CHECK(ref.files.front().name == "rank_0001/own");
  }
  CHECK(told.size() == 6);
}
