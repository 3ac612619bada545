// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/run_directory.hpp>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>

#include "../support/child_process.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "faulty_files.hpp"
#include "run_start.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using namespace raytrain;

namespace {

using Names = std::vector<std::string>;

auto opening_error(RunStart const& start) -> std::string {
  return thrown_error([&] { return started(start).start().number; });
}

/// What each lock fails with; 0: none does.
int lock_problem = 0;

}  // namespace

/// The system's, unless a test stands for a file system without locks.
extern "C" auto flock(int file, int operation) noexcept -> int {
  if (lock_problem == 0) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = lock_problem;
  return -1;
}

TEST_CASE("a first start creates the folder and records who started what") {
  TemporaryFolder const folder;
  auto start = start_in(folder.path() / "deep/runs");
  start.world_size = WorldSize{4};
  start.seed = 18446744073709551615U;
  start.raytrain_version = "0.1.0";
  start.hosts = {"a", "b"};
  auto const directory = started(start);
  CHECK(directory.path() == folder.path() / "deep/runs/run");
  CHECK(directory.name() == "run");
  CHECK(directory.start().number == 1);
  CHECK(directory.previous_state().empty());
  CHECK(directory.report_fields().empty());
  CHECK(directory.progress_path() == folder.path() / "deep/runs/run/progress.jsonl");
  CHECK(names_below(directory.path()) == Names{".lock", "checkpoints", "run.json"});
  CHECK(names_below(directory.path() / "checkpoints").empty());
  auto const record = read_run_record(directory.path());
  CHECK(record.identity.program == "fashion");
  CHECK(record.identity.backend == "torch");
  CHECK(record.state == "running");
  CHECK(record.starts == 1);
  CHECK(record.world_size == 4);
  CHECK(record.seed == 18446744073709551615U);
  CHECK(record.raytrain_version == "0.1.0");
  CHECK(record.hosts == Names{"a", "b"});
  CHECK(record.started_at.size() == std::string{"2025-11-21T09:05:00Z"}.size());
}

TEST_CASE("a later start counts on, and knows how the one before ended and what it reported") {
  TemporaryFolder const folder;
  {
    auto directory = started(start_in(folder.path()));
    directory.record_report_fields({"epoch", "loss"});
    directory.set_state("errored", "rank 1: \xFF lost");
    CHECK(read_run_record(directory.path()).error == "rank 1: \xEF\xBF\xBD lost");
  }
  auto const directory = started(start_in(folder.path()));
  CHECK(directory.start().number == 2);
  CHECK(directory.previous_state() == "errored");
  CHECK(directory.report_fields() == Names{"epoch", "loss"});
  auto const record = read_run_record(directory.path());
  CHECK(record.state == "running");
  CHECK(record.error.empty());
}

TEST_CASE("workers, seed and storage path may change between starts") {
  TemporaryFolder const folder;
  (void)started(start_in(folder.path() / "a"));
  std::filesystem::rename(folder.path() / "a", folder.path() / "b");
  auto start = start_in(folder.path() / "b");
  start.world_size = WorldSize{8};
  start.seed = 7;
  CHECK(started(start).start().number == 2);
}

TEST_CASE("the run of another program or backend is refused with both identities, and stays as it was") {
  TemporaryFolder const folder;
  started(start_in(folder.path())).record_report_fields({"epoch", "loss"});
  auto const before = read_text(folder.path() / "run/run.json");
  auto other = start_in(folder.path());
  other.program = "cifar";
  auto const text = opening_error(other);
  check_contains(text, "foreign_run: opening the run in '" + (folder.path() / "run").string() +
                           "': it belongs to program 'fashion', backend 'torch', report fields epoch, loss, and this "
                           "is program 'cifar', backend 'torch'; choose another RunConfig::name");
  check_contains(text, "Resume::fresh");
  other = start_in(folder.path());
  other.backend = "mpi";
  check_contains(opening_error(other), "this is program 'fashion', backend 'mpi'");
  CHECK(read_text(folder.path() / "run/run.json") == before);
}

TEST_CASE("the fields of the first report are recorded once, and other ones are refused with both") {
  TemporaryFolder const folder;
  FaultyFiles files;
  auto syncs = 0;
  files.before = [&](std::string const& step) { return syncs += step == "sync" ? 1 : 0, 0; };
  auto directory = started(start_in(folder.path()), files);
  directory.record_report_fields({"epoch", "loss"});
  CHECK(read_run_record(directory.path()).identity.report_fields == Names{"epoch", "loss"});
  auto const syncs_before = syncs;
  directory.record_report_fields({"epoch", "loss"});
  CHECK(syncs == syncs_before);
  auto const text = thrown_error([&] {
    directory.record_report_fields({"step"});
    return 0;
  });
  check_contains(text, "foreign_run: reporting to the run in '");
  check_contains(text, "it has the report fields epoch, loss, and this report has step; choose another");
  check_known_fields({.known = {}, .reported = {"anything"}}, folder.path());
}

TEST_CASE("Resume::fresh removes what raytrain owns, counts on, and leaves the rest") {
  TemporaryFolder const folder;
  {
    auto directory = started(start_in(folder.path()));
    directory.record_report_fields({"epoch"});
    directory.set_state("finished");
    write_text(directory.path() / "checkpoints" / "checkpoint_000001/model", "m");
    write_text(directory.path() / "checkpoints" / ".staging-1-0/rank_0000/x", "s");
    write_text(directory.progress_path(), "{}\n");
    write_text(directory.path() / "progress.csv", "a\n");
    write_text(directory.path() / "events/tensorboard", "mine");
  }
  auto start = fresh_in(folder.path());
  start.program = "another";
  auto const directory = started(start);
  CHECK(directory.start().number == 2);
  CHECK(directory.previous_state().empty());
  CHECK(directory.report_fields().empty());
  CHECK(names_below(directory.path()) == Names{".lock", "checkpoints", "events", "run.json"});
  CHECK(names_below(directory.path() / "checkpoints").empty());
  CHECK(read_run_record(directory.path()).identity.program == "another");
}

TEST_CASE("Resume::fresh where nothing is starts at the beginning") {
  TemporaryFolder const folder;
  CHECK(started(fresh_in(folder.path())).start().number == 1);
}

TEST_CASE("Resume::fresh deletes nothing when the checkpoints' folder holds something that is not raytrain's") {
  TemporaryFolder const folder;
  write_text(folder.path() / "run/checkpoints/best.pt", "mine");
  write_text(folder.path() / "run/checkpoints/checkpoint_000001/a", "a");
  check_contains(opening_error(fresh_in(folder.path())), "foreign_run: deleting the checkpoints in '");
  check_contains(opening_error(fresh_in(folder.path())), "/best.pt' is not raytrain's; move it elsewhere");
  CHECK(names_below(folder.path() / "run") == Names{"checkpoints"});
  CHECK(names_below(folder.path() / "run/checkpoints") == Names{"best.pt", "checkpoint_000001"});
}

TEST_CASE(
    "Resume::fresh takes away a link to checkpoints elsewhere, leaves those alone, and so does every later start") {
  TemporaryFolder const folder;
  auto const disk = folder.path() / "big disk";
  write_text(disk / "checkpoint_000001/model", "m");
  (void)started(start_in(folder.path()));
  auto const checkpoints = folder.path() / "run/checkpoints";
  std::filesystem::remove(checkpoints);
  std::filesystem::create_directory_symlink(disk, checkpoints);
  CHECK(started(fresh_in(folder.path())).start().number == 2);
  CHECK(names_below(checkpoints).empty());
  CHECK(started(start_in(folder.path())).start().number == 3);
  CHECK(names_below(folder.path() / "run") == Names{".lock", "checkpoints", "run.json"});
  CHECK(read_text(disk / "checkpoint_000001/model") == "m");
}

TEST_CASE("a link to checkpoints that leads nowhere is an error at the start, and Resume::fresh takes it away") {
  TemporaryFolder const folder;
  (void)started(start_in(folder.path()));
  auto const checkpoints = folder.path() / "run/checkpoints";
  std::filesystem::remove(checkpoints);
  std::filesystem::create_directory_symlink(folder.path() / "not mounted", checkpoints);
  check_contains(opening_error(start_in(folder.path())),
                 "io: opening the store of checkpoints '" + checkpoints.string() +
                     "': it is a link that leads to no folder; mount or create the folder");
  CHECK(read_run_record(folder.path() / "run").starts == 1);
  CHECK(started(fresh_in(folder.path())).start().number == 2);
  CHECK(std::filesystem::symlink_status(checkpoints).type() == std::filesystem::file_type::directory);
  CHECK(names_below(folder.path() / "run") == Names{".lock", "checkpoints", "run.json"});
}

TEST_CASE("a file where the checkpoints' folder would be is an error at every start, and nothing is deleted") {
  TemporaryFolder const folder;
  (void)started(start_in(folder.path()));
  auto const checkpoints = folder.path() / "run/checkpoints";
  std::filesystem::remove(checkpoints);
  write_text(checkpoints, "mine");
  for (auto const& start : {start_in(folder.path()), fresh_in(folder.path())}) {
    check_contains(opening_error(start), checkpoints.string() + "': it is not a folder; move it elsewhere");
  }
  CHECK(read_text(checkpoints) == "mine");
  CHECK(read_run_record(folder.path() / "run").starts == 1);
}

TEST_CASE("Resume::fresh deletes nothing when a folder lies where a file of the run would be") {
  TemporaryFolder const folder;
  write_text(started(start_in(folder.path())).path() / "checkpoints" / "checkpoint_000001/a", "a");
  for (auto const* name : {"progress.jsonl", "progress.csv"}) {
    auto const place = folder.path() / "run" / name;
    std::filesystem::create_directory(place);
    check_contains(opening_error(fresh_in(folder.path())),
                   "foreign_run: deleting the run in '" + (folder.path() / "run").string() + "' (Resume::fresh): '" +
                       place.string() + "' is a folder; move it elsewhere");
    std::filesystem::remove(place);
  }
  CHECK(read_text(folder.path() / "run/checkpoints/checkpoint_000001/a") == "a");
}

TEST_CASE("a file system without locks is named as such, with what to do, and nothing is left") {
  for (auto const problem : {ENOLCK, ENOSYS, EOPNOTSUPP}) {
    CAPTURE(problem);
    TemporaryFolder const folder;
    lock_problem = problem;
    auto const text = opening_error(start_in(folder.path()));
    lock_problem = 0;
    check_contains(text, "io: locking '" + (folder.path() / "run/.lock").string() + "': failed: ");
    check_contains(text, "(errno " + std::to_string(problem) +
                             "); this file system has no locks: mount it with flock, or choose another "
                             "RunConfig::storage_path");
    CHECK_FALSE(std::filesystem::exists(folder.path() / "run/.lock"));
  }
}

TEST_CASE("a lock that is no regular file is named as such, with what to do, and keeps no start waiting") {
  TemporaryFolder const folder;
  (void)started(start_in(folder.path()));
  auto const lock = folder.path() / "run/.lock";
  std::filesystem::remove(lock);
  auto const check = [&] {
    check_contains(opening_error(start_in(folder.path())),
                   "io: locking the run in '" + (folder.path() / "run").string() + "': '" + lock.string() +
                       "' is not a regular file; remove it, raytrain makes its own");
    std::filesystem::remove(lock);
  };
  REQUIRE(::mkfifo(lock.c_str(), 0666) == 0);
  check();
  std::filesystem::create_directory(lock);
  check();
  CHECK(started(start_in(folder.path())).start().number == 2);
}

TEST_CASE("a record with any byte changed or cut off is refused, with what can be done about it") {
  TemporaryFolder const folder;
  started(start_in(folder.path())).set_state("finished");
  auto const path = folder.path() / "run/run.json";
  auto const whole = read_text(path);
  auto const check_refused = [&](std::string const& content) {
    write_text(path, content);
    auto const text = opening_error(start_in(folder.path()));
    REQUIRE(
        text.starts_with("foreign_run: reading '" + path.string() + "': its bytes are not those that were written"));
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    check_refused(whole.substr(0, at));
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x21);
    check_refused(damaged);
  }
  check_refused(std::string(whole.size(), '\0'));
  check_contains(opening_error(start_in(folder.path())), "or remove that file to go on from the checkpoints beside it");
  CHECK(started(fresh_in(folder.path())).start().number == 1);
}

TEST_CASE("a folder whose record is gone is taken up again, with its checkpoints") {
  TemporaryFolder const folder;
  write_text(folder.path() / "run/checkpoints/checkpoint_000004/a", "a");
  auto const directory = started(start_in(folder.path()));
  CHECK(directory.start().number == 1);
  CHECK(names_below(directory.path() / "checkpoints") == Names{"checkpoint_000004"});
}

TEST_CASE("the record of a newer version is refused as such") {
  TemporaryFolder const folder;
  auto text = std::string{"{\n  \"format\": 9,\n  \"what\": 1"};
  text += ",\n  \"xxh3\": \"" + detail::xxh3_of(bytes_of(text)) + "\"\n}\n";
  write_text(folder.path() / "run/run.json", text);
  check_contains(opening_error(start_in(folder.path())),
                 "foreign_run: reading '" + (folder.path() / "run/run.json").string() +
                     "': it was written by a newer raytrain (format 9, this one reads up to 4); use that "
                     "version, or choose another RunConfig::name");
}

TEST_CASE("reading the record of a folder that holds no run says what to name") {
  TemporaryFolder const folder;
  check_contains(
      thrown_error([&] { return read_run_record(folder.path()); }),
      "not_found: reading the run in '" + folder.path().string() + "': there is no run.json in it; name the folder");
}

TEST_CASE("a folder is one process's at a time: the second one is told whose, and gets in when the first has ended") {
  TemporaryFolder const folder;
  {
    auto directory = started(start_in(folder.path()));
    auto const here = "it is in use by process " + std::to_string(::getpid()) + " on ";
    check_contains(opening_error(start_in(folder.path())), "invalid_call: opening the run in '");
    check_contains(opening_error(start_in(folder.path())), here);
    check_contains(opening_error(fresh_in(folder.path())), here);
    // A child inherits the open file, and the lock with it, but never opens the folder itself.
    auto const child = in_child([&] { return opening_error(start_in(folder.path())); });
    check_contains(child.text, here);
    auto moved = std::move(directory);
    check_contains(opening_error(start_in(folder.path())), here);
    CHECK(names_below(folder.path() / "run") == Names{".lock", "checkpoints", "run.json"});
  }
  auto const child = in_child([&] { return std::to_string(started(start_in(folder.path())).start().number); });
  CHECK(child.text == "2");
  CHECK(started(start_in(folder.path())).start().number == 3);
}

TEST_CASE("a run stays one process's although somebody removes the file that says so, or puts another in its place") {
  TemporaryFolder const folder;
  auto const lock = folder.path() / "run/.lock";
  auto const directory = started(start_in(folder.path()));
  std::filesystem::remove(lock);
  check_contains(opening_error(start_in(folder.path())), "invalid_call: opening the run in '");
  check_contains(opening_error(fresh_in(folder.path())), "in use by another process, whose file '" + lock.string());
  CHECK(names_below(folder.path() / "run") == Names{"checkpoints", "run.json"});
  write_text(lock, "");
  check_contains(opening_error(start_in(folder.path())), "it is in use by ");
}

TEST_CASE("a storage path that is a file, or leads through one, is refused and nothing is created") {
  TemporaryFolder const folder;
  write_text(folder.path() / "file", "mine");
  for (auto const* storage : {"file", "file/below", "file/a/b"}) {
    check_contains(
        opening_error(start_in(folder.path() / storage)),
        "invalid_config: RunConfig::storage_path: '" + (folder.path() / "file").string() + "' is not a folder");
  }
  write_text(folder.path() / "runs/run", "a file where the run's folder would be");
  check_contains(opening_error(start_in(folder.path() / "runs")), "runs/run' is not a folder");
  CHECK(names_below(folder.path()) == Names{"file", "runs"});
  auto nameless = start_in(folder.path());
  nameless.name.clear();
  check_contains(opening_error(nameless), "invalid_config: RunConfig::name: must not be empty");
}

TEST_CASE("whatever step of a first start fails, nothing is left of it, not even the folders above") {
  auto failures = 0;
  for (auto const problem : {ENOSPC, EROFS, EACCES, EIO}) {
    for (auto step = 0;; ++step) {
      CAPTURE(step);
      TemporaryFolder const folder;
      FaultyFiles files;
      auto left = step;
      files.before = [&](std::string const& name) {
        if (name.starts_with("remove")) return 0;
        return left-- == 0 ? problem : 0;
      };
      try {
        (void)started(start_in(folder.path() / "deep/runs"), files);
        break;
      } catch (Error const& error) {
        CHECK(error.code() == Errc::io);
        check_contains(error.what(), "(errno " + std::to_string(problem) + ")");
        check_contains(error.remedy(), problem == EIO ? "the disk itself" : "RunConfig::storage_path");
        CHECK(names_below(folder.path()).empty());
        ++failures;
      }
    }
  }
  CHECK(failures > 30);
}

TEST_CASE("whatever step of a later start fails, the run stays as it was") {
  for (auto step = 0;; ++step) {
    CAPTURE(step);
    TemporaryFolder const folder;
    started(start_in(folder.path())).set_state("finished");
    FaultyFiles files;
    auto left = step;
    files.before = [&](std::string const& name) { return !name.starts_with("remove") && left-- == 0 ? ENOSPC : 0; };
    auto const before = names_below(folder.path() / "run");
    try {
      (void)started(start_in(folder.path()), files);
      CHECK(step > 3);
      break;
    } catch (Error const& error) {
      check_contains(error.what(), "free space there");
      CHECK(names_below(folder.path() / "run") == before);
      auto const state = read_run_record(folder.path() / "run").state;
      CHECK((state == "finished" || state == "running"));
    }
  }
}

TEST_CASE("opening a run that is there syncs twice and no more: the new record, and its name") {
  TemporaryFolder const folder;
  (void)started(start_in(folder.path()));
  FaultyFiles files;
  auto syncs = 0;
  files.before = [&](std::string const& step) { return syncs += step == "sync" ? 1 : 0, 0; };
  (void)started(start_in(folder.path()), files);
  CHECK(syncs == 2);
}

TEST_CASE("a start whose folder was moved writes nothing into the one that another start makes in its place") {
  TemporaryFolder const folder;
  auto moved = started(start_in(folder.path()));
  auto const path = moved.path();
  std::filesystem::rename(path, folder.path() / "elsewhere");
  check_contains(thrown_error([&] { moved.record_checkpoint(); }), "its folder was moved, removed or replaced");
  auto const other = started(start_in(folder.path()));
  check_contains(thrown_error([&] { moved.set_state("finished"); }), "leave a run's folder alone while it trains");
  CHECK(read_run_record(path).state == "running");
  CHECK(read_run_record(path).run_id == other.run_id());
  CHECK(read_run_record(folder.path() / "elsewhere").run_id == moved.run_id());
}
