// SPDX-License-Identifier: Apache-2.0
// Runs whose checkpoints lie in a store of the program's own, and stores that fail.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_record.hpp>
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
  CHECK(result.checkpoint()->number().value == 1);
}

TEST_CASE("more failing deletions than there is room for messages end with a warning each") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<MemoryStore::Memory>();
  auto config = config_in(folder, in_memory(memory));
  config.scaling.num_workers = 1;
  constexpr int checkpoints = 1100;  // above the 1024 messages that are taken in advance
  MinimalTrainer{epochs_up_to(checkpoints), config}.fit();
  config.run.checkpoint.num_to_keep = 1;
  config.run.checkpoint.store = [memory](std::filesystem::path const& run_path) {
    return std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(memory), [run_path](std::string_view step) {
      if (step != "remove") return;
      // Until all workers have returned, after which nobody takes messages.
      while (raytrain::read_run_record(run_path).state == "running") std::this_thread::yield();
      throw Error{Errc::io, "removing", "the line is dead"};
    });
  };
  auto const result = MinimalTrainer{epochs_up_to(checkpoints), config}.fit();
  CHECK(result.state == RunState::finished);
  CHECK(result.warnings.size() == checkpoints - 1);
}

TEST_CASE("what is no exception, thrown while a run reads its store, is a failure of that run") {
  for (std::string const failing : {"files_of", "numbers"}) {
    CAPTURE(failing);
    TemporaryFolder const folder;
    std::atomic<bool> committed = false;
    auto const config = config_in(folder, [&](std::filesystem::path const& run_path) {
      return std::make_shared<FaultyStore>(std::make_shared<DirectoryStore>(run_path / "checkpoints"),
                                           [&](std::string_view step) {
                                             if (step == "publish") committed = true;
                                             if (step == failing && committed) throw 42;
                                           });
    });
    contains(message_of([&] { MinimalTrainer{epochs_up_to(1), config}.fit(); }), "an exception of type int");
    CHECK(Result::from_path(folder.path() / "run").state == RunState::errored);
  }
}

TEST_CASE("a deletion that did not come to its end goes on only where nothing else would be deleted, and is told of") {
  TemporaryFolder const folder;
  auto config = config_in(folder, {});
  auto const path = MinimalTrainer{epochs_up_to(2), config}.fit().path;
  config.run.resume = Resume::fresh;
  config.run.checkpoint.store = failing_at("clear");
  contains(message_of([&] { MinimalTrainer{epochs_up_to(3), config}.fit(); }), "step clear");
  contains(message_of([&] { (void)Result::from_path(path); }), "Resume::fresh has begun to delete this run");
  config.run.resume = Resume::automatic;
  config.run.checkpoint.store = {};
  std::ofstream{path / "checkpoints" / "notes.txt"} << "mine";
  contains(message_of([&] { MinimalTrainer{epochs_up_to(3), config}.fit(); }), "notes.txt");
  CHECK(std::filesystem::exists(path / "checkpoints" / "notes.txt"));
  std::filesystem::remove(path / "checkpoints" / "notes.txt");
  auto const result = MinimalTrainer{epochs_up_to(1), config}.fit();
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings[0], "an earlier start was to delete this run (Resume::fresh)");
}

TEST_CASE("two runs that are given one store are kept apart") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<MemoryStore::Memory>();
  MinimalTrainer{epochs_up_to(2), config_in(folder, in_memory(memory))}.fit();
  auto other = config_in(folder, in_memory(memory));
  other.run.name = "other";
  contains(message_of([&] { MinimalTrainer{epochs_up_to(3), other}.fit(); }), "'memory/2' belongs to the run 'run ");
  CHECK(memory->checkpoints.size() == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "other"));
}

TEST_CASE("a store that cannot be read in the end, or is not named, is no run without checkpoints") {
  TemporaryFolder const folder;
  auto const memory = std::make_shared<MemoryStore::Memory>();
  auto const path = MinimalTrainer{epochs_up_to(2), config_in(folder, in_memory(memory))}.fit().path;
  auto const unnamed = Result::from_path(path);
  REQUIRE(unnamed.warnings.size() == 1);
  contains(unnamed.warnings[0], "name the store that it trained with");
  auto const unreadable = [&](std::filesystem::path const&) {
    return std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(memory), [](std::string_view step) {
      if (step == "files_of") throw Error{Errc::io, "reading", "the line is dead"};
    });
  };
  contains(message_of([&] { (void)Result::from_path(path, unreadable); }), "the line is dead");
}

TEST_CASE("a store that is made once and given twice is refused") {
  TemporaryFolder const folder;
  auto const store = std::make_shared<MemoryStore>(std::make_shared<MemoryStore::Memory>());
  auto const config = config_in(folder, [&](std::filesystem::path const&) { return store; });
  MinimalTrainer{epochs_up_to(1), config}.fit();
  contains(message_of([&] {
             MinimalTrainer{epochs_up_to(2), config}.fit();
           }),
           "let CheckpointConfig::store make a new store each time");
}

TEST_CASE("Result::from_path tells a store the path that the run has told it, however it is written") {
  TemporaryFolder const folder;
  std::vector<std::filesystem::path> paths;
  auto const config = config_in(folder, [&](std::filesystem::path const& run_path) {
    paths.push_back(run_path);
    return std::make_shared<DirectoryStore>(run_path / "checkpoints");
  });
  auto const path = MinimalTrainer{epochs_up_to(1), config}.fit().path;
  CHECK(Result::from_path(path / "", config.run.checkpoint.store).checkpoints.size() == 1);
  CHECK(Result::from_path(path / "checkpoints" / "..", config.run.checkpoint.store).checkpoints.size() == 1);
  for (auto const& told : paths) CHECK(told == path);
}

namespace {

// Does what it is asked for, and says that it has failed.
class Doubting final : public MemoryStore {
 public:
  using MemoryStore::MemoryStore;
  void publish(StagedCheckpoint const& staged) override {
    MemoryStore::publish(staged);
    if (staged.number == CheckpointNumber{1}) throw Error{Errc::io, "publishing", "no answer came"};
  }
};

}  // namespace

TEST_CASE("a store that publishes and throws is named as the cause of what follows, and not another start") {
  auto const memory = std::make_shared<MemoryStore::Memory>();
  Doubting store{memory};
  store.begin(StartId{1, "0badcafe"}, "a run");
  auto const commit = [&](std::uint64_t ordinal) {
    auto part = draft("text");
    part.fill(Rank{0});
    CommitRequest request;
    request.checkpoint = CheckpointOrdinal{ordinal};
    request.world_size = WorldSize{1};
    request.parts.push_back(store.stage(part, Rank{0}, CheckpointOrdinal{ordinal}));
    request.training_iterations = {ordinal + 1};
    return message_of([&] { (void)store.commit(request); });
  };
  contains(commit(0), "no answer came");
  contains(commit(1), "is there, although publishing it has thrown; mend CheckpointStore::publish");
}

TEST_CASE("a store that throws Stopped fails the run, and is no stop of it") {
  TemporaryFolder const folder;
  auto const store = [](std::filesystem::path const& run_path) {
    return std::make_shared<FaultyStore>(std::make_shared<DirectoryStore>(run_path / "checkpoints"),
                                         [](std::string_view step) {
                                           if (step == "write_part") throw Stopped{};
                                         });
  };
  MinimalTrainer trainer{epochs_up_to(3), config_in(folder, store)};
  contains(message_of([&] { trainer.fit(); }), "the store has thrown Stopped, which is for collectives");
}
