// SPDX-License-Identifier: Apache-2.0
// RunConfig::metadata: what a program says of its run, for whoever looks at it later.
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/text_files.hpp"
#include "minimal_run.hpp"

namespace {

using Metadata = std::map<std::string, std::string>;

auto with_metadata(TemporaryFolder const& folder, Metadata metadata) -> MinimalConfig {
  return {.scaling = {.num_workers = 2}, .run = {.storage_path = folder.path(), .metadata = std::move(metadata)}};
}

class KeepMetadata : public Callback {
 public:
  void on_start(RunInfo const& info) override { told = info.metadata; }
  Metadata told;
};

}  // namespace

TEST_CASE("metadata is told to workers and callbacks, and kept in run.json, the result and each checkpoint") {
  TemporaryFolder const folder;
  Metadata const metadata{{"commit", "a10a4e1"}, {"r\xC3\xB6le", ""}};
  auto config = with_metadata(folder, metadata);
  auto const callback = std::make_shared<KeepMetadata>();
  config.callbacks = {callback};
  std::mutex mutex;
  std::vector<Metadata> seen;
  auto const result = MinimalTrainer{[&](TrainContext& ctx) {
                                       {
                                         std::scoped_lock const lock{mutex};
                                         seen.push_back(ctx.metadata());
                                       }
                                       epochs_up_to(2)(ctx);
                                     },
                                     config}
                          .fit();
  CHECK(seen == std::vector{metadata, metadata});
  CHECK(callback->told == metadata);
  CHECK(result.metadata == metadata);
  CHECK(contains(read_text(result.path / "run.json"), "\"commit\": \"a10a4e1\""));
  auto const back = Result::from_path(result.path);
  CHECK(back.metadata == metadata);
  REQUIRE(back.checkpoints.size() == 2);
  for (auto const& checkpoint : back.checkpoints) {
    CHECK(checkpoint.run_metadata() == metadata);
    CHECK(checkpoint.metadata().empty());
    CHECK(Checkpoint::from_directory(checkpoint.path()).run_metadata() == metadata);
  }
}

TEST_CASE("a later start has metadata of its own, and so have the checkpoints that it adds") {
  TemporaryFolder const folder;
  MinimalTrainer{epochs_up_to(1), with_metadata(folder, {{"try", "1"}, {"only", "then"}})}.fit();
  auto const second = MinimalTrainer{epochs_up_to(2), with_metadata(folder, {{"try", "2"}})}.fit();
  CHECK(second.metadata == Metadata{{"try", "2"}});
  CHECK(Result::from_path(second.path).metadata == Metadata{{"try", "2"}});
  REQUIRE(second.checkpoints.size() == 2);
  CHECK(second.checkpoints[0].run_metadata().at("try") == "1");
  CHECK(second.checkpoints[1].run_metadata() == Metadata{{"try", "2"}});
  // Reported again, a checkpoint is of the run that reports it.
  auto const again = [&](TrainContext& ctx) {
    ctx.report(Epoch{2, 1}, ctx.world_rank() == Rank{0} ? CheckpointDraft{*ctx.checkpoint()} : CheckpointDraft{});
  };
  auto const third = MinimalTrainer{again, with_metadata(folder, {{"try", "3"}})}.fit();
  CHECK(third.checkpoint()->run_metadata().at("try") == "3");
}

TEST_CASE("a failed run has its metadata, in the error and in its folder") {
  TemporaryFolder const folder;
  try {
    MinimalTrainer{[](TrainContext&) { throw std::runtime_error{"as planned"}; }, with_metadata(folder, {{"a", "b"}})}
        .fit();
    FAIL("nothing was thrown");
  } catch (TrainingFailed const& failed) {
    CHECK(failed.result().metadata == Metadata{{"a", "b"}});
    CHECK(Result::from_path(failed.result().path).metadata == Metadata{{"a", "b"}});
  }
}
