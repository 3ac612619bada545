// SPDX-License-Identifier: Apache-2.0
// Real file systems that are full or cannot be written: mounted by a child process in a mount namespace of its own, so
// that they go away with it.
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/checkpoint/run_directory.hpp>

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "../support/child_process.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "committed.hpp"
#include "faulty_files.hpp"
#include "run_start.hpp"

using raytrain::testing::TemporaryFolder;

using namespace raytrain;

namespace {

constexpr auto skip_mark = "skipped: ";

// Makes this process the root of a namespace in which it may mount, without more rights than it has.
auto enter_namespace() -> bool {
  auto const user = ::geteuid();
  auto const group = ::getegid();
  if (user == 0) return ::unshare(CLONE_NEWNS) == 0;
  if (::unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
  write_text("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  return ::geteuid() == 0;
}

// Mounts an empty file system of 64 KiB, visible to this process alone; empty if that worked.
auto mount_small_disk(std::filesystem::path const& path) -> std::string {
  auto const worked = enter_namespace() && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("none", path.c_str(), "tmpfs", 0, "size=64k") == 0;
  return worked ? "" : std::string{skip_mark} + "no right to mount a file system: " + std::strerror(errno);
}

void fill(std::filesystem::path const& disk) {
  for (auto i = 0; i < 64; ++i) write_text(disk / ("fill" + std::to_string(i)), std::string(4096, 'x'));
}

// What `body` found wrong on the small disk; empty if nothing.
template <class Body>
auto on_small_disk(Body body) -> std::string {
  TemporaryFolder const folder;
  auto const outcome = in_child([&] {
    auto const problem = mount_small_disk(folder.path());
    return problem.empty() ? body(folder.path()) : problem;
  });
  if (outcome.text.starts_with(skip_mark)) {
    MESSAGE(outcome.text);
    return {};
  }
  CHECK(outcome.exit_code == 0);
  return outcome.text;
}

// In a child, where doctest cannot count: what `call` throws has all `parts`; empty if so.
template <class Call, class... Parts>
auto lacks(Call call, Parts... parts) -> std::string {
  try {
    call();
  } catch (Error const& error) {
    std::string text = error.what();
    auto const has_all = error.code() == Errc::io && ((text.find(parts) != std::string::npos) && ...);
    return has_all ? "" : "unexpected error: " + text;
  }
  return "no error";
}

auto run_in(std::filesystem::path const& storage) -> RunStart {
  return {.storage_path = storage, .name = "run", .program = "p", .backend = "b"};
}

}  // namespace

TEST_CASE("a full disk is an error at the start that says what to do, and leaves no folder") {
  CHECK(on_small_disk([](std::filesystem::path const& disk) {
          fill(disk);
          auto const before = names_below(disk);
          auto const problem = lacks([&] { started(run_in(disk / "deep/runs")); }, "No space left on device",
                                     disk.string(), "free space there");
          return names_below(disk) == before ? problem : problem + " something is left";
        }) == "");
}

TEST_CASE("a checkpoint for which a disk has too little room is refused with both sizes, before a file is made") {
  CHECK(on_small_disk([](std::filesystem::path const& disk) -> std::string {
          DirectoryStore store{disk, 1};
          commit(store, {draft_of({{"model", "small"}})});
          auto const before = names_below(disk);
          auto const problem = lacks(
              [&] {
                commit(store, {draft_of({{"a", "x"}, {"model", std::string(100'000, 'x')}})}, 1);
              },
              "writing rank 0's part of a checkpoint to '" + disk.string() + "': it needs 122880 bytes, and 5",
              " are free on that disk; free space there", "CheckpointConfig::num_to_keep");
          if (!problem.empty()) return problem;
          if (names_below(disk) != before) return "something was made";
          return commit(store, {draft_of({{"model", "fits"}})}, 2).number().value == 2
                     ? ""
                     : "the next one has another number";
        }) == "");
}

TEST_CASE("a disk that fills up in the middle of a checkpoint costs that checkpoint only") {
  CHECK(on_small_disk([](std::filesystem::path const& disk) -> std::string {
          FaultyFiles files;  // others write to it, too, after it was asked how much is free
          DirectoryStore store{disk, files};
          store.begin(StartId{1}, {});
          commit(store, {draft_of({{"model", "small"}})});
          std::string const large(100'000, 'x');
          auto const problem = lacks(
              [&] {
                commit(store, {draft_of({{"a", "x"}, {"model", large}})}, 1);
              },
              "No space left on device", "/model'", "CheckpointConfig::num_to_keep");
          if (!problem.empty()) return problem;
          if (!names_below(disk / ".staging-1-1").empty()) return "the part is still there";
          store.discard(CheckpointOrdinal{1});
          if (text_in(newest(store).value(), "model") != "small") return "the old checkpoint is lost";
          if (commit(store, {draft_of({{"model", "fits"}})}, 2).number().value != 2)
            return "the next one has another number";
          return {};
        }) == "");
}

TEST_CASE("a disk that fills up between staging and commit costs that checkpoint only") {
  CHECK(on_small_disk([](std::filesystem::path const& disk) -> std::string {
          DirectoryStore store{disk, 1};
          commit(store, {draft_of({{"model", "old"}})});
          auto const part = store.stage(draft_of({{"model", "new"}}), Rank{0}, CheckpointOrdinal{1});
          fill(disk);
          auto const problem = lacks(
              [&] {
                store.commit({CheckpointOrdinal{1}, 2, 0, WorldSize{1}, {}, {part}});
              },
              "No space left on device", "manifest.json'");
          if (!problem.empty()) return problem;
          store.discard(CheckpointOrdinal{1});
          return store.list().size() == 1 && text_in(newest(store).value(), "model") == "old" ? ""
                                                                                              : "the old one is lost";
        }) == "");
}

TEST_CASE("a record that does not fit any more leaves the one before") {
  CHECK(on_small_disk([](std::filesystem::path const& disk) -> std::string {
          auto directory = started(run_in(disk));
          fill(disk);
          auto const problem = lacks([&] { directory.set_state("finished"); }, "No space left on device", "run.json");
          if (!problem.empty()) return problem;
          return read_run_record(directory.path()).state == "running" ? "" : "the record is not the one before";
        }) == "");
}

TEST_CASE("a disk that is mounted read-only is an error at the start that says so") {
  CHECK(on_small_disk([](std::filesystem::path const& disk) -> std::string {
          { auto const there = started(run_in(disk)); }
          if (::mount("none", disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return "cannot remount";
          return lacks([&] { started(run_in(disk)); }, "Read-only file system", "mounted read-only") +
                 lacks([&] { started(run_in(disk / "other")); }, "Read-only file system", disk.string(),
                       "mounted read-only");
        }) == "");
}

TEST_CASE("a folder that this user may not write to is an error at the start that says so") {
  TemporaryFolder const folder;
  std::filesystem::create_directory(folder.path() / "locked");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder.path() / "locked", std::filesystem::perms{0555});
  auto const outcome = in_child([&] {
    // Rights do not bind root.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return std::string{skip_mark} + "cannot become another user";
    return lacks([&] { started(run_in(folder.path() / "locked/runs")); }, "Permission denied", "/locked/runs'",
                 "give this user the right");
  });
  if (outcome.text.starts_with(skip_mark)) {
    MESSAGE(outcome.text);
    return;
  }
  CHECK(outcome.text == "");
  CHECK(names_below(folder.path() / "locked").empty());
}
