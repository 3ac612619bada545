// SPDX-License-Identifier: Apache-2.0
// What is left on disk when a process is killed, or the power fails, before any step of what the store and the run
// directory do.
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/child_process.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "committed.hpp"
#include "faulty_files.hpp"
#include "run_start.hpp"
#include "volatile_files.hpp"

using raytrain::testing::TemporaryFolder;

using namespace raytrain;

namespace {

using Names = std::vector<std::string>;

Contents const old_files{{"model.pt", "old weights"}, {"rank_0001/opt", "old moments"}};
Contents const new_files{{"deep/er/more", "more"}, {"model.pt", "new weights"}, {"rank_0001/opt", "new moments"}};

void commit_old(std::filesystem::path const& directory) {
  DirectoryStore store{directory, 1};
  commit(store, {draft_of({{"model.pt", "old weights"}}), draft_of({{"opt", "old moments"}}).per_rank()});
}

auto commit_new(DirectoryStore& store) -> Checkpoint {
  return commit(store, {draft_of({{"model.pt", "new weights"}, {"deep/er/more", "more"}}),
                        draft_of({{"opt", "new moments"}}).per_rank()});
}

// The newest valid checkpoint is the old or the new one, everything under a checkpoint's name is whole, and the next
// start cleans up and commits another one.
void check_store(std::filesystem::path const& directory, bool is_new_promised) {
  DirectoryStore store{directory, 3};
  Skipped skipped;
  auto const found = newest(store, &skipped);
  REQUIRE(found);
  CHECK(skipped.empty());
  auto const is_new = found->number().value == 2;
  REQUIRE((is_new || !is_new_promised));
  REQUIRE(contents_of(*found) == (is_new ? new_files : old_files));
  store.sweep();
  for (auto const& name : names_below(directory)) {
    CAPTURE(name);
    REQUIRE(name.starts_with("checkpoint_"));
    auto const checkpoint = Checkpoint::from_directory(directory / name);
    REQUIRE(checkpoint.number().value > 0);
    checkpoint.verify();
  }
  REQUIRE(commit(store, {draft_of({{"next", "n"}})}).number().value == found->number().value + 1);
}

auto start_of(std::filesystem::path const& storage, bool fresh = false) -> RunStart {
  return {.storage_path = storage, .name = "run", .program = "p", .backend = "b", .fresh = fresh};
}

}  // namespace

TEST_CASE("a process killed before any step of a commit or a removal leaves the old or the new checkpoint whole") {
  auto kills = 0;
  for (auto step = 0;; ++step) {
    CAPTURE(step);
    TemporaryFolder const folder;
    commit_old(folder.path());
    auto const outcome = in_child([&] {
      DyingFiles files{step};
      DirectoryStore store{folder.path(), files};
      store.begin(2, {});
      commit_new(store);
      write_text(folder.path().string() + ".committed", "");
      store.remove(CheckpointNumber{1});
      return std::string{"done"};
    });
    auto const is_promised = std::filesystem::remove(folder.path().string() + ".committed");
    REQUIRE((outcome.exit_code == DyingFiles::exit_code || outcome.text == "done"));
    check_store(folder.path(), is_promised);
    if (outcome.exit_code == 0) break;
    ++kills;
  }
  CHECK(kills > 40);
}

TEST_CASE("power that fails before any step of them does so too, whatever the disk had kept back") {
  auto const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  TemporaryFolder const folder;
  auto const live = folder.path() / "live";
  std::filesystem::create_directory(live);
  commit_old(live);
  VolatileFiles files{live};
  auto is_promised = false;
  auto steps = 0;
  auto const check_all = [&] {
    auto const left = folder.path() / "left";
    for (auto variant = 0; variant < 12; ++variant) {
      CAPTURE(steps);
      CAPTURE(variant);
      if (variant == 0) files.kill(left);
      if (variant == 1) files.lose_power(left);
      if (variant > 1) files.lose_power(left, random);
      check_store(left, is_promised);
      std::filesystem::remove_all(left);
    }
    ++steps;
  };
  files.before = check_all;
  DirectoryStore store{live, files};
  store.begin(2, {});
  commit_new(store);
  is_promised = true;
  check_all();
  store.remove(CheckpointNumber{1});
  check_all();
  CHECK(steps > 40);
}

TEST_CASE("a process killed before any step of a start or a change of state leaves the old or the new record") {
  auto kills = 0;
  for (auto step = 0;; ++step) {
    CAPTURE(step);
    TemporaryFolder const folder;
    started(start_of(folder.path())).set_state("aborted");
    auto const outcome = in_child([&] {
      DyingFiles files{step};
      auto directory = started(start_of(folder.path()), files);
      directory.record_report_fields({"loss"});
      directory.set_state("finished");
      return std::string{"done"};
    });
    auto const record = read_run_record(folder.path() / "run");
    Names const states{"aborted", "running", "finished"};
    REQUIRE(std::ranges::find(states, record.state) != states.end());
    REQUIRE(record.starts == (record.state == "aborted" ? 1 : 2));
    REQUIRE((record.state != "finished" || record.identity.report_fields == Names{"loss"}));
    REQUIRE(started(start_of(folder.path())).start().number == record.starts + 1);
    if (outcome.exit_code == 0) {
      REQUIRE(record.state == "finished");
      break;
    }
    ++kills;
  }
  CHECK(kills > 10);
}

TEST_CASE("a first start that returned survives a failing power, and one that did not can be made again") {
  TemporaryFolder const folder;
  std::filesystem::create_directory(folder.path() / "live");
  VolatileFiles files{folder.path() / "live"};
  auto const left = folder.path() / "left";
  auto const check_all = [&](bool is_promised) {
    for (auto variant = 0; variant < 2; ++variant) {
      if (variant == 0) files.kill(left);
      if (variant == 1) files.lose_power(left);
      REQUIRE((!is_promised || read_run_record(left / "deep/er/run").state == "running"));
      REQUIRE((!is_promised || std::filesystem::is_directory(left / "deep/er/run/checkpoints")));
      auto const attempt = std::filesystem::exists(left / "deep/er/run/run.json") ? 2 : 1;
      REQUIRE(started(start_of(left / "deep/er")).start().number == attempt);
      std::filesystem::remove_all(left);
    }
  };
  files.before = [&] { check_all(false); };
  auto const directory = started(start_of(folder.path() / "live/deep/er"), files);
  check_all(true);
}

TEST_CASE("a fresh start that is cut short leaves the run that was there whole, or nothing of it") {
  auto const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  TemporaryFolder const folder;
  auto const live = folder.path() / "live";
  {
    auto directory = started(start_of(live));
    commit_old(directory.path() / "checkpoints");
    write_text(directory.progress_path(), "{}\n");
    write_text(directory.path() / "notes.txt", "mine");
    directory.set_state("finished");
  }
  auto whole = 0;
  auto gone = 0;
  VolatileFiles files{live};
  auto const left = folder.path() / "left";
  files.before = [&] {
    for (auto variant = 0; variant < 12; ++variant) {
      CAPTURE(variant);
      if (variant == 0) files.kill(left);
      if (variant == 1) files.lose_power(left);
      if (variant > 1) files.lose_power(left, random);
      {
        auto const directory = started(start_of(left));
        auto const found = newest(directory.store());
        REQUIRE(found.has_value() == (directory.previous_state() == "finished"));
        REQUIRE(found.has_value() == std::filesystem::exists(directory.progress_path()));
        if (found) REQUIRE(contents_of(*found) == old_files);
        REQUIRE(read_text(left / "run/notes.txt") == "mine");
        Names expected{".lock", "checkpoints", "notes.txt", "run.json"};
        if (found) expected.insert(expected.end() - 1, "progress.jsonl");
        REQUIRE(names_below(left / "run") == expected);
        ++(found ? whole : gone);
      }
      std::filesystem::remove_all(left);
    }
  };
  auto const directory = started(start_of(live, true), files);
  CHECK(directory.previous_state().empty());
  CHECK(whole > 12);
  CHECK(gone > 12);
}
