// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a start goes on from: only damage leads to an older one, and nothing but the user's word to none.
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>

#include "../support/child_process.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "committed.hpp"
#include "run_start.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using namespace raytrain;

namespace {

// Two checkpoints in a store of their own; the newer one has an empty file.
auto two_in(std::filesystem::path const& folder) -> std::unique_ptr<DirectoryStore> {
  auto store = std::make_unique<DirectoryStore>(folder, 1);
  commit(*store, {draft_of({{"a", "old"}})});
  commit(*store, {draft_of({{"a", "new"}, {"empty", ""}})}, 1);
  return store;
}

auto second_in(CheckpointStore const& store) -> std::filesystem::path {
  return store.files_of(CheckpointNumber{2})->directory();
}

// Rewrites a file of ours without some of its lines, with a seal that fits.
void take_away(std::filesystem::path const& file, std::uint32_t format, std::vector<std::string> const& fields) {
  auto text = read_text(file);
  text.resize(text.rfind(",\n  \"xxh3\": "));
  for (auto const& field : fields) {
    auto const at = text.find("\n  \"" + field + "\": ");
    REQUIRE(at != std::string::npos);
    text.erase(at, text.find('\n', at + 1) - at);
  }
  auto const written = "\"format\": " + std::to_string(format);
  text.replace(text.find(written), written.size(), "\"format\": 1");
  write_text(file, text + ",\n  \"xxh3\": \"" + detail::xxh3_of(bytes_of(text)) + "\"\n}\n");
}

void replace_by_link(std::filesystem::path const& file, std::filesystem::path const& target) {
  std::filesystem::remove(file);
  std::filesystem::create_symlink(target, file);
}

void replace_by_pipe(std::filesystem::path const& file) {
  std::filesystem::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0666) == 0);
}

void enlarge(std::filesystem::path const& file) {
  std::filesystem::remove(file);
  write_text(file, "{");
  std::filesystem::resize_file(file, std::uint64_t{1} << 40U);
}

}  // namespace

TEST_CASE("a checkpoint that the disk does not give now is an error that says how to go on without it") {
  for (auto const& [file, target, cause] :
       std::vector<std::array<std::string, 3>>{{"empty", "/proc/self/mem", "Input/output error (errno 5)"},
                                               {"a", "a", "Too many levels of symbolic links"},
                                               {"manifest.json", "manifest.json", "Too many levels of symbolic"}}) {
    TemporaryFolder const folder;
    auto const owned = two_in(folder.path());
    auto const& store = *owned;
    replace_by_link(second_in(store) / file, target);
    Skipped skipped;
    auto const text = thrown_error([&] { return newest(store, &skipped); });
    CHECK(text.starts_with("io: "));
    check_contains(text, cause);
    check_contains(text, "; or move '" + second_in(store).string() + "' elsewhere to go on without it");
    CHECK(skipped.empty());
  }
}

TEST_CASE("a checkpoint that this user may not read is an error, and no older one takes its place") {
  TemporaryFolder const folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0755});
  auto const owned = two_in(folder.path());
  auto const& store = *owned;
  std::filesystem::permissions(second_in(store), std::filesystem::perms{0700});
  auto const outcome = in_child([&] {
    // Rights do not bind root, and bind others only to what is root's.
    if (::geteuid() != 0 || ::setuid(65534) != 0) return std::string{"skipped: only root can become another user"};
    return std::to_string(newest(store)->number().value);
  });
  if (outcome.text.starts_with("skipped")) {
    MESSAGE(outcome.text);
    return;
  }
  check_contains(outcome.text, "Permission denied");
  check_contains(outcome.text, "give this user the right to read");
}

#ifndef __SANITIZE_ADDRESS__  // beside which the check of virtual calls opens a pipe for each
TEST_CASE("a start that may open no more files says so, and takes no checkpoint for damaged") {
  TemporaryFolder const folder;
  auto const owned = two_in(folder.path());
  auto const& store = *owned;
  std::filesystem::remove(second_in(store) / "a");
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto const text = thrown_error([&] {
    return store.newest_valid([&](CheckpointNumber, std::string const&, std::string_view) {
      ::rlimit const none{0, before.rlim_max};
      (void)::setrlimit(RLIMIT_NOFILE, &none);
    });
  });
  (void)::setrlimit(RLIMIT_NOFILE, &before);
  check_contains(text, "Too many open files");
  check_contains(text, "ulimit -n");
}
#endif

TEST_CASE(
    "a checkpoint by a newer raytrain is an error that says how to go on without it, and none behind it is taken") {
  TemporaryFolder const folder;
  auto const owned = two_in(folder.path());
  auto const manifest = second_in(*owned) / "manifest.json";
  auto text = read_text(manifest);
  text.resize(text.rfind(",\n  \"xxh3\": "));
  text.replace(text.find("\"format\": 5"), 11, "\"format\": 6");
  write_text(manifest, text + ",\n  \"xxh3\": \"" + detail::xxh3_of(bytes_of(text)) + "\"\n}\n");
  Skipped skipped;
  check_contains(thrown_error([&] { return newest(*owned, &skipped); }),
                 "manifest.json: it was written by a newer raytrain (format 6, this one reads up to 5); use that "
                 "version; or move '" +
                     second_in(*owned).string() + "' elsewhere to go on without it");
  CHECK(skipped.empty());
}

TEST_CASE("where there are checkpoints and all are damaged, the run does not begin anew by itself") {
  TemporaryFolder const folder;
  auto const owned = two_in(folder.path());
  auto const& store = *owned;
  write_text(store.path_of(CheckpointNumber{1}) / "a", "X");
  std::filesystem::remove(second_in(store) / "manifest.json");
  Skipped skipped;
  auto const text = thrown_error([&] { return newest(store, &skipped); });
  check_contains(text, "corrupt_checkpoint: looking for a checkpoint to go on from in '" + folder.path().string() +
                           "': there are 2, and each is damaged; checkpoint 2: manifest.json is missing; copy "
                           "one there that is whole, or start anew by RunConfig::resume = Resume::fresh");
  CHECK(skipped.size() == 2);
}

TEST_CASE("a run that had checkpoints by its record misses them when all are gone, until told to start anew") {
  TemporaryFolder const folder;
  {
    auto directory = started(start_in(folder.path()));
    directory.check_none_lost();
    auto& store = directory.store();
    commit(store, {draft_of({{"a", "x"}})});
    directory.record_checkpoint();
    store.remove(CheckpointNumber{1});
  }
  for (auto start = 0; start < 2; ++start) {
    auto const directory = started(start_in(folder.path()));
    CHECK_FALSE(newest(directory.store()));
    check_contains(thrown_error([&] { return directory.check_none_lost(), 0; }),
                   "corrupt_checkpoint: going on with the run in '" + directory.path().string() +
                       "': it had checkpoints by its run.json, and there are none in '" +
                       (directory.path() / "checkpoints").string() + "'; copy one back there, or start anew");
  }
  started(fresh_in(folder.path())).check_none_lost();
}

TEST_CASE("a checkpoint that was copied in from another run is refused with both, and never deleted") {
  TemporaryFolder const folder;
  auto const mine = started(start_in(folder.path() / "mine"));
  auto const other = started(start_in(folder.path() / "other"));
  auto& store = mine.store();
  auto& other_store = other.store();
  commit(store, {draft_of({{"a", "mine"}})});
  commit(other_store, {draft_of({{"a", "other"}})});
  commit(other_store, {draft_of({{"a", "other"}})}, 1);
  std::filesystem::copy(second_in(other_store), second_in(store));
  auto const text = thrown_error([&] { return newest(store); });
  check_contains(text, "foreign_run: reading checkpoint '" + second_in(store).string() + "': it belongs to the run '" +
                           other.run_id() + "', and this is the run '" + mine.run_id() + "'");
  check_contains(text, "load it by Checkpoint::from_directory");
  CHECK(store.list().size() == 1);
  CHECK(Checkpoint::from_directory(second_in(store)).run_id() == other.run_id());
  std::filesystem::rename(second_in(store), folder.path() / "elsewhere");
  CHECK(newest(store)->number().value == 1);
}

TEST_CASE("a run's checkpoints stay its own when its folder is renamed or copied, or its record is lost") {
  TemporaryFolder const folder;
  {
    auto directory = started(start_in(folder.path() / "a"));
    auto& store = directory.store();
    commit(store, {draft_of({{"a", "x"}})});
  }
  std::filesystem::rename(folder.path() / "a/run", folder.path() / "a/best");
  std::filesystem::copy(folder.path() / "a", folder.path() / "b", std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder.path() / "b/best/run.json");
  for (auto const* storage : {"a", "b"}) {
    auto start = start_in(folder.path() / storage);
    start.name = "best";
    auto const directory = started(start);
    CHECK(directory.start().number == 2);  // or the next part would be one of the start that is over
    auto& store = directory.store();
    CHECK(newest(store));
    CHECK(commit(store, {draft_of({{"a", "y"}})}).number().value == 2);
  }
}

TEST_CASE("what a raytrain wrote that named no runs is read, and goes on") {
  TemporaryFolder const folder;
  {
    auto directory = started(start_in(folder.path()));
    auto& store = directory.store();
    take_away(commit(store, {draft_of({{"a", "x"}})}).path() / "manifest.json", Manifest::newest_format,
              {"run_id", "run_metadata", "orders"});
  }
  take_away(folder.path() / "run/run.json", RunRecord::newest_format, {"run_id", "has_checkpoints", "metadata"});
  auto const directory = started(start_in(folder.path()));
  CHECK(directory.start().number == 2);
  auto& store = directory.store();
  auto const found = newest(store);
  REQUIRE(found);
  CHECK(found->run_id().empty());
  CHECK(found->run_metadata().empty());
  CHECK_FALSE(found->order("train"));
  CHECK(commit(store, {draft_of({{"a", "y"}})}).run_id() == directory.run_id());
  CHECK(store.list().size() == 2);
}

TEST_CASE("a pipe in place of a file keeps no start waiting") {
  TemporaryFolder const folder;
  for (auto const* file : {"a", "manifest.json"}) {
    std::filesystem::remove_all(folder.path() / "store");
    std::filesystem::create_directory(folder.path() / "store");
    auto const owned = two_in(folder.path() / "store");
    auto const& store = *owned;
    replace_by_pipe(second_in(store) / file);
    auto const outcome = in_child([&] {
      ::alarm(60);
      Skipped skipped;
      auto const found = newest(store, &skipped);
      return std::to_string(found->number().value) + skipped.at(0).second;
    });
    CHECK(outcome.text == "1file '" + std::string{file} + "' is not a regular file");
  }
  (void)started(start_in(folder.path()));
  replace_by_pipe(folder.path() / "run/run.json");
  auto const outcome = in_child([&] {
    ::alarm(60);
    return std::to_string(started(start_in(folder.path())).start().number);
  });
  check_contains(outcome.text, "run.json': it is not a regular file");
}

TEST_CASE("a manifest or a record that claims a terabyte is damaged, and no memory is asked for it") {
  TemporaryFolder const folder;
  auto const owned = two_in(folder.path());
  auto const& store = *owned;
  enlarge(second_in(store) / "manifest.json");
  Skipped skipped;
  CHECK(newest(store, &skipped)->number().value == 1);
  REQUIRE(skipped.size() == 1);
  check_contains(skipped[0].second, "manifest.json: it has 1099511627776 bytes, and at most 268435456 can be");
  (void)started(start_in(folder.path()));
  enlarge(folder.path() / "run/run.json");
  check_contains(thrown_error([&] { return started(start_in(folder.path())).start().number; }),
                 "foreign_run: reading '" + (folder.path() / "run/run.json").string() + "': it has 1099511627776");
}
