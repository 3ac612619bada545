// SPDX-License-Identifier: Apache-2.0
// Runs whose checkpoints lie in a store of the program's own, and stores that fail.
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/testing/faulty_store.hpp>
#include <raytrain/testing/memory_store.hpp>

#include "../support/thrown_error.hpp"
#include "minimal_run.hpp"

using raytrain::testing::FaultyStore;
using raytrain::testing::MemoryStore;

namespace {

auto in_memory(std::shared_ptr<MemoryStore::Memory> const& memory) -> MakeCheckpointStore {
  return [memory](std::filesystem::path const&) { return std::make_shared<MemoryStore>(memory); };
}

auto config_in(TemporaryFolder const& folder, MakeCheckpointStore store) -> MinimalConfig {
  return {.scaling = {.num_workers = 2},
          .run = {.name = "run", .storage_path = folder.path(), .checkpoint = {.store = std::move(store)}}};
}

auto texts_in(Result const& result) -> std::vector<std::string> {
  std::vector<std::string> texts;
  for (auto const& checkpoint : result.checkpoints) texts.push_back(text_in(checkpoint));
  return texts;
}

// The directory of a run, whose `failing` step throws.
auto failing_at(std::string failing) -> MakeCheckpointStore {
  return [failing = std::move(failing)](std::filesystem::path const& run_path) {
    return std::make_shared<FaultyStore>(std::make_shared<DirectoryStore>(run_path / "checkpoints"),
                                         [failing](std::string_view step) {
                                           if (step != failing) return;
                                           throw Error{Errc::io, "step " + failing, "the line is dead", "plug it in"};
                                         });
  };
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a run trains, goes on, deletes and begins anew in a store that is no directory") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<MemoryStore::Memory>();
  auto config = config_in(folder, in_memory(memory));
  config.run.checkpoint.num_to_keep = 2;
  CHECK(texts_in(MinimalTrainer{epochs_up_to(3), config}.fit()) == Texts{"1", "2"});
  auto const result = MinimalTrainer{epochs_up_to(5), config}.fit();
  CHECK(texts_in(result) == Texts{"3", "4"});
  CHECK(result.history.size() == 5);
  CHECK(result.warnings.empty());
  CHECK(memory->checkpoints.size() == 2);
  CHECK(memory->staged.empty());
  CHECK(result.checkpoint()->location() == "memory/5");
  CHECK_FALSE(std::filesystem::exists(result.path / "checkpoints"));
  contains(message_of([&] { (void)result.checkpoint()->path(); }),
           "Checkpoint::path(): 'memory/5' lies in no directory of this machine; write it to one by "
           "Checkpoint::from_bytes");
  auto const copy = Checkpoint::from_bytes(result.checkpoint()->to_bytes(), folder.path() / "copy");
  CHECK(text_in(copy) == "4");
  CHECK(texts_in(Result::from_path(result.path, config.run.checkpoint.store)) == Texts{"3", "4"});
  CHECK(Result::from_path(result.path).checkpoints.empty());

  config.run.resume = Resume::fresh;
  CHECK(texts_in(MinimalTrainer{epochs_up_to(1), config}.fit()) == Texts{"0"});
  CHECK(memory->checkpoints.begin()->first == CheckpointNumber{1});
}

TEST_CASE("a run whose record is lost goes on from what its store has") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<MemoryStore::Memory>();
  auto const config = config_in(folder, in_memory(memory));
  auto const before = MinimalTrainer{epochs_up_to(2), config}.fit();
  std::filesystem::remove_all(before.path);
  auto const result = MinimalTrainer{epochs_up_to(3), config}.fit();
  CHECK(texts_in(result) == Texts{"0", "1", "2"});
  CHECK(result.checkpoint()->run_id() == before.checkpoint()->run_id());
  CHECK(result.checkpoint()->start() == 2);
}

TEST_CASE("a run that is told of no store anymore, or of none at all, says so and trains nothing") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<MemoryStore::Memory>();
  MinimalTrainer{epochs_up_to(2), config_in(folder, in_memory(memory))}.fit();
  contains(message_of([&] {
             MinimalTrainer{epochs_up_to(3), config_in(folder, {})}.fit();
           }),
           "it had checkpoints by its run.json, and there are none in '" +
               (folder.path() / "run/checkpoints").string() + "'");
  auto const none = [](std::filesystem::path const&) { return std::shared_ptr<CheckpointStore>{}; };
  contains(message_of([&] {
             MinimalTrainer{epochs_up_to(3), config_in(folder, none)}.fit();
           }),
           "CheckpointConfig::store: made no store for the run in '" + (folder.path() / "run").string() + "'");
  CHECK(texts_in(MinimalTrainer{epochs_up_to(3), config_in(folder, in_memory(memory))}.fit()) == Texts{"0", "1", "2"});
}

TEST_CASE("a store that cannot be written to ends the run with its own words, and what was committed stays") {
  for (std::string const step : {"write_part", "publish"}) {
    CAPTURE(step);
    TemporaryFolder const folder;
    MinimalTrainer{epochs_up_to(1), config_in(folder, {})}.fit();
    MinimalTrainer trainer{epochs_up_to(3), config_in(folder, failing_at(step))};
    contains(message_of([&] { trainer.fit(); }), "step " + step + ": the line is dead; plug it in");
    CHECK(texts_in(Result::from_path(folder.path() / "run")) == Texts{"0"});
    CHECK(texts_in(MinimalTrainer{epochs_up_to(2), config_in(folder, {})}.fit()) == Texts{"0", "1"});
  }
}

TEST_CASE("a store that throws what is no exception ends the run with its type, or is warned of") {
  TemporaryFolder const folder;
  std::string failing = "publish";
  auto config = config_in(folder, [&](std::filesystem::path const& run_path) {
    return std::make_shared<FaultyStore>(std::make_shared<DirectoryStore>(run_path / "checkpoints"),
                                         [&](std::string_view step) {
                                           if (step == failing) throw 42;
                                         });
  });
  contains(message_of([&] { MinimalTrainer{epochs_up_to(1), config}.fit(); }), "an exception of type int");
  failing = "remove";
  config.run.checkpoint.num_to_keep = 1;
  auto const result = MinimalTrainer{epochs_up_to(2), config}.fit();
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings[0], "an exception of type int");
}

TEST_CASE("a store that cannot be read or prepared refuses the start, and the run stays as it was") {
  for (std::string const step : {"check_usable", "numbers", "files_of", "sweep", "create"}) {
    CAPTURE(step);
    TemporaryFolder const folder;
    auto const before = MinimalTrainer{epochs_up_to(1), config_in(folder, {})}.fit();
    MinimalTrainer trainer{epochs_up_to(3), config_in(folder, failing_at(step))};
    contains(message_of([&] { trainer.fit(); }), "step " + step + ": the line is dead; plug it in");
    CHECK(Result::from_path(before.path).state == RunState::finished);
    auto const after = MinimalTrainer{epochs_up_to(2), config_in(folder, {})}.fit();
    CHECK(texts_in(after) == Texts{"0", "1"});
    CHECK(after.checkpoint()->start() == 2);
  }
}

TEST_CASE("a store that cannot delete is warned of, and the next start deletes") {
  TemporaryFolder const folder;
  auto config = config_in(folder, failing_at("remove"));
  config.run.checkpoint.num_to_keep = 1;
  auto const result = MinimalTrainer{epochs_up_to(2), config}.fit();
  CHECK(result.state == RunState::finished);
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings[0], "step remove: the line is dead");
  CHECK(texts_in(result) == Texts{"0", "1"});
  config.run.checkpoint.store = {};
  CHECK(texts_in(MinimalTrainer{epochs_up_to(3), config}.fit()) == Texts{"2"});
}

TEST_CASE("a store that cannot be cleared keeps nothing of a run that Resume::fresh has begun to delete") {
  TemporaryFolder const folder;
  auto config = config_in(folder, {});
  MinimalTrainer{epochs_up_to(2), config}.fit();
  config.run.resume = Resume::fresh;
  config.run.checkpoint.store = failing_at("check_clearable");
  contains(message_of([&] {
             MinimalTrainer{epochs_up_to(3), config}.fit();
           }),
           "step check_clearable: the line is dead");
  CHECK(texts_in(Result::from_path(folder.path() / "run")) == Texts{"0", "1"});
  config.run.checkpoint.store = failing_at("clear");
  contains(message_of([&] { MinimalTrainer{epochs_up_to(3), config}.fit(); }), "step clear: the line is dead");
  config.run.checkpoint.store = {};
  config.run.resume = Resume::automatic;
  auto const result = MinimalTrainer{epochs_up_to(1), config}.fit();
  CHECK(texts_in(result) == Texts{"0"});
  CHECK(result.history.size() == 1);
  CHECK(result.checkpoint()->number() == 1);
}
