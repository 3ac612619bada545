// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/directory_store.hpp>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/retention.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "committed.hpp"
#include "faulty_files.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using namespace raytrain;

namespace {

using Names = std::vector<std::string>;

auto request_for(std::vector<CheckpointRef> parts, std::uint32_t world) -> CommitRequest {
  return {{0}, 1, 0.0, WorldSize{world}, {}, std::move(parts)};
}

}  // namespace

TEST_CASE("a checkpoint whose report has a NaN is whole, and offered to the next start") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const part = store.stage(draft_of({{"model", "m"}}), Rank{0}, CheckpointOrdinal{0});
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  auto const made = store.open(store.commit({CheckpointOrdinal{0}, 1, 0.0, WorldSize{1}, {{"loss", nan}}, {part}}));
  Skipped skipped;
  auto const found = newest(store, &skipped);
  REQUIRE(found);
  CHECK(found->path() == made.path());
  CHECK(skipped.empty());
  CHECK(std::isnan(found->metrics().number("loss").value()));
}

TEST_CASE("what is staged is not a checkpoint until it is committed, and then leaves nothing beside it") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 3};
  auto const part = store.stage(draft_of({{"a", "x"}}), Rank{0}, CheckpointOrdinal{7});
  CHECK(part.files.size() == 1);
  CHECK(names_below(folder.path()) == Names{".staging-3-7"});
  CHECK(names_below(folder.path() / ".staging-3-7") == Names{"rank_0000"});
  CHECK(store.list().empty());
  CHECK_FALSE(newest(store));
  CHECK(store.commit({CheckpointOrdinal{7}, 1, 0.0, WorldSize{1}, {}, {part}}) == CheckpointNumber{1});
  CHECK(names_below(folder.path()) == Names{"checkpoint_000001"});
  CHECK(names_below(folder.path() / "checkpoint_000001") == Names{"a", "manifest.json"});
}

TEST_CASE("the parts of all ranks make one checkpoint, and per_rank keeps the same names apart") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const checkpoint = commit(store, {draft_of({{"model", "m"}}), draft_of({{"opt", "1"}, {"x/y", "2"}}).per_rank(),
                                         CheckpointDraft{}, draft_of({{"opt", "3"}}).per_rank()});
  CHECK(checkpoint.files().size() == 4);
  CHECK(text_in(checkpoint, "rank_0001/opt") == "1");
  CHECK(text_in(checkpoint, "rank_0001/x/y") == "2");
  CHECK(text_in(checkpoint, "rank_0003/opt") == "3");
  checkpoint.verify();
}

TEST_CASE("ranks without files need not stage, and a checkpoint may hold metadata alone") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const checkpoint = store.open(store.commit(request_for(
      {CheckpointRef{Rank{1}, {0}, {}, {{"a", "1"}}}, CheckpointRef{Rank{0}, {0}, {}, {{"b", "2"}, {"a", "1"}}}}, 2)));
  CHECK(checkpoint.files().empty());
  CHECK(checkpoint.metadata().size() == 2);
  CHECK(names_below(folder.path()) == Names{"checkpoint_000001"});
}

TEST_CASE("a number is one more than the highest that is there, valid or not, and grows beyond six digits") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  CHECK(commit(store, {draft_of({{"a", "1"}})}).number().value == 1);
  CHECK(commit(store, {draft_of({{"a", "2"}})}, 1).number().value == 2);
  store.remove(CheckpointNumber{1});
  CHECK(commit(store, {draft_of({{"a", "3"}})}, 2).number().value == 3);
  write_text(folder.path() / "checkpoint_999999/broken", "");
  CHECK(commit(store, {draft_of({{"a", "4"}})}, 3).path().filename() == "checkpoint_1000000");
  for (auto const* stranger :
       {"checkpoint_7", "checkpoint_0000008", "checkpoint_00000x", "checkpoint_", "Checkpoint_000009",
        "checkpoint_000000", "checkpoint_-00001", "checkpoint_99999999999999999999", "checkpoint_18446744073709551615",
        "checkpoint_1000000000000000"}) {
    write_text(folder.path() / stranger / "manifest.json", "");
  }
  CHECK(commit(store, {draft_of({{"a", "5"}})}, 4).number().value == 1000001);
  CHECK(store.list().size() == 4);
  CHECK(store.list().back().number().value == 1000001);
}

TEST_CASE(
    "the number of a checkpoint that somebody else removed is not given again, or the new one would be taken for it") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  std::filesystem::remove_all(commit(store, {draft_of({{"a", "1"}})}).path());
  CHECK(commit(store, {draft_of({{"a", "2"}})}, 1).number().value == 2);
}

TEST_CASE("the same file from two ranks is an error that names the file and both ranks, and adds no checkpoint") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const text = thrown_error([&] {
    return commit(store, {CheckpointDraft{}, draft_of({{"model.pt", "a"}}), draft_of({{"model.pt", "b"}})});
  });
  check_contains(text,
                 "rank_mismatch: committing checkpoint 1 of this start: rank 1 wrote the file 'model.pt' and rank 2 "
                 "wrote 'model.pt'");
  check_contains(text, "CheckpointDraft::per_rank");
  check_contains(thrown_error([&] {
                   return commit(store, {draft_of({{"a/b", ""}}), draft_of({{"a", ""}})});
                 }),
                 "rank 0 wrote the file 'a/b' and rank 1 wrote 'a'");
  auto const again = thrown_error([&] {
    return commit(store, {draft_of({{"rank_0001/x", ""}}), draft_of({{"x", ""}}).per_rank()});
  });
  check_contains(again,
                 "rank 0 wrote the file 'rank_0001/x' and rank 1 wrote 'rank_0001/x'; of a checkpoint that is "
                 "reported again, report on one rank only the files that lie in no rank's folder");
  CHECK(store.list().empty());
  store.discard(CheckpointOrdinal{0});
  CHECK(names_below(folder.path()).empty());
}

TEST_CASE("ranks that set a metadata key differently are named with both values") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto a = draft_of({});
  auto b = draft_of({});
  a.set_metadata("epoch", "1").set_metadata("same", "s");
  b.set_metadata("epoch", "2").set_metadata("same", "s");
  check_contains(thrown_error([&] {
                   return commit(store, {a, b});
                 }),
                 "metadata 'epoch' is '1' on rank 0 and '2' on rank 1");
}

TEST_CASE("a rank that is missing, there twice, unknown or at another checkpoint is named") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const part = [](std::uint32_t rank, std::uint64_t checkpoint = 0) {
    return CheckpointRef{Rank{rank}, {checkpoint}, {}, {}};
  };
  auto const refusal = [&](std::vector<CheckpointRef> parts) {
    return thrown_error([&] { return store.commit(request_for(std::move(parts), 2)); });
  };
  check_contains(refusal({part(0)}),
                 "rank_mismatch: committing checkpoint 1 of this start: rank 1 gave 0 parts of it instead of one");
  check_contains(refusal({part(0), part(0), part(1)}), "rank 0 gave 2 parts");
  check_contains(refusal({part(0), part(1), part(2)}), "there is a part of rank 2 in a world of 2");
  check_contains(refusal({part(0), part(1, 5)}), "rank 1's part belongs to checkpoint 6");
  CHECK(names_below(folder.path()).empty());
}

TEST_CASE("a part that another start staged is refused") {
  TemporaryFolder const folder;
  DirectoryStore before{folder.path(), 1};
  DirectoryStore now{folder.path(), 2};
  auto const stale = before.stage(draft_of({{"a", "old"}}), Rank{0}, CheckpointOrdinal{0});
  check_contains(thrown_error([&] { return now.commit(request_for({stale}, 1)); }),
                 "invalid_call: committing checkpoint 1 of this start: file 'a' of rank 0 was not staged by start "
                 "2 of this run");
  (void)now.stage(draft_of({{"a", "newer"}}), Rank{0}, CheckpointOrdinal{0});
  check_contains(thrown_error([&] { return now.commit(request_for({stale}, 1)); }),
                 "file 'a' of rank 0 has 5 bytes instead of the 3 that were staged");
  CHECK(now.list().empty());
}

TEST_CASE("a start beside which another one with its number trains, in a copy of its folder, commits nothing more") {
  TemporaryFolder const folder;
  DirectoryStore one{folder.path(), 2, "run"};
  DirectoryStore other{folder.path(), 2, "run"};
  commit(one, {draft_of({{"a", "1"}})});
  check_contains(thrown_error([&] { return commit(other, {draft_of({{"a", "2"}})}); }), "and this is another start 2");
  CHECK(one.list().size() == 1);
}

TEST_CASE("a start whose run a later one has taken over, for want of a lock, commits nothing more") {
  TemporaryFolder const folder;
  DirectoryStore before{folder.path(), 1, "run"};
  DirectoryStore now{folder.path(), 2, "run"};
  commit(before, {draft_of({{"a", "1"}})});
  commit(now, {draft_of({{"a", "2"}})}, 1);
  check_contains(thrown_error([&] {
                   return commit(before, {draft_of({{"a", "3"}})}, 1);
                 }),
                 "invalid_call: committing checkpoint 2 of this start: start 2 of this run has committed '" +
                     now.path_of(CheckpointNumber{2}).string() +
                     "', and this is start 1; train in one process at a time");
  CHECK(commit(now, {draft_of({{"a", "4"}})}, 2).number().value == 3);
}

TEST_CASE("a part cannot move files from outside its staging folder") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path() / "c", 1};
  std::filesystem::create_directory(folder.path() / "c");
  write_text(folder.path() / "secret", "s");
  for (auto const* name : {"../../../secret", "/etc/passwd", "manifest.json", ""}) {
    CheckpointRef const part{Rank{0}, {0}, {{name, 1, ""}}, {}};
    check_contains(thrown_error([&] { return store.commit(request_for({part}, 1)); }), "rank 0 names a file '");
  }
  CHECK(read_text(folder.path() / "secret") == "s");
}

TEST_CASE("a draft that is not filled, or a name that is too long below its rank's folder, is not staged") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto const replicated = CheckpointDraft::replicated([](CheckpointDraft&) {});
  check_contains(thrown_error([&] { return store.stage(replicated, Rank{0}, CheckpointOrdinal{0}); }),
                 "call CheckpointDraft::fill first");
  std::string name(200, 'a');
  while (name.size() < 1020) name += "/" + std::string(200, 'b');
  name.resize(1020);
  check_contains(thrown_error([&] {
                   return store.stage(draft_of({{name, ""}}).per_rank(), Rank{0}, CheckpointOrdinal{0});
                 }),
                 "is longer than 1024 bytes; shorten it");
  CHECK(names_below(folder.path() / ".staging-1-0").empty());
}

TEST_CASE("staging the same part again replaces it") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  (void)store.stage(draft_of({{"old", "x"}, {"a/b", "x"}}), Rank{0}, CheckpointOrdinal{0});
  auto const checkpoint =
      store.open(store.commit(request_for({store.stage(draft_of({{"a", "y"}}), Rank{0}, CheckpointOrdinal{0})}, 1)));
  CHECK(checkpoint.files().size() == 1);
  CHECK(text_in(checkpoint, "a") == "y");
}

TEST_CASE("ranks may stage at the same time") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  constexpr std::uint32_t world = 4;
  std::vector<CheckpointRef> parts(world);
  std::vector<std::jthread> ranks;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      parts[rank] = store.stage(draft_of({{"a", std::string(3000, 'a')}, {"d/b", "b"}}).per_rank(), Rank{rank},
                                CheckpointOrdinal{0});
    });
  }
  ranks.clear();
  auto const checkpoint = store.open(store.commit(request_for(parts, world)));
  CHECK(checkpoint.files().size() == 8);
  checkpoint.verify();
}

TEST_CASE("newest_valid passes over what is damaged, newest first, and says why for each") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  for (std::uint64_t i = 0; i < 7; ++i) commit(store, {draft_of({{"a", std::to_string(i)}})}, i);
  auto const file = [&](std::uint64_t number, std::string const& name) {
    return store.path_of(CheckpointNumber{number}) / name;
  };
  write_text(file(7, "a"), "X");
  std::filesystem::remove(file(6, "a"));
  write_text(file(5, "manifest.json"), read_text(file(4, "manifest.json")));
  std::filesystem::remove(file(4, "manifest.json"));
  write_text(file(3, "manifest.json"), "{}");
  std::filesystem::remove_all(store.path_of(CheckpointNumber{2}));
  write_text(store.path_of(CheckpointNumber{2}), "a file");
  Skipped skipped;
  auto const found = newest(store, &skipped);
  REQUIRE(found);
  CHECK(found->number().value == 1);
  CHECK(text_in(*found, "a") == "0");
  REQUIRE(skipped.size() == 6);
  check_contains(skipped[0].second, "file 'a' has other bytes than were written");
  check_contains(skipped[1].second, "file 'a' is missing");
  CHECK(skipped[2].second == "manifest.json is that of checkpoint 4");
  CHECK(skipped[3].second == "manifest.json is missing");
  CHECK(skipped[4].second == "manifest.json: its bytes are not those that were written");
  check_contains(skipped[5].second, "it is not a directory");
  CHECK(skipped[0].first == "checkpoint_000007");
  auto const listed = store.list();
  REQUIRE(listed.size() == 3);
  CHECK(listed[0].number().value == 1);
  CHECK(listed[1].number().value == 6);
  CHECK(listed[2].number().value == 7);
  CHECK(listed[2].metrics().number("loss") == 0.5);
  CHECK(listed[2].training_iteration() == 7);
}

TEST_CASE("a removed checkpoint is gone whole, and removing one that is not there is an error") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  commit(store, {draft_of({{"a/b", "x"}})});
  store.remove(CheckpointNumber{1});
  CHECK(names_below(folder.path()).empty());
  check_contains(thrown_error([&] {
                   store.remove(CheckpointNumber{1});
                   return 0;
                 }),
                 "not_found: removing checkpoint 1: there is no '");
}

TEST_CASE("two starts with the same number, of which one has the other's folder, do not touch each other's parts") {
  TemporaryFolder const folder;
  DirectoryStore moved{folder.path(), {1, "00000001"}};
  DirectoryStore store{folder.path(), {1, "00000002"}};
  auto const part = store.stage(draft_of({{"a", "mine"}}), Rank{0}, CheckpointOrdinal{0});
  (void)moved.stage(draft_of({{"a", "its"}}), Rank{0}, CheckpointOrdinal{0});
  moved.discard(CheckpointOrdinal{0});
  auto const committed = store.open(store.commit({CheckpointOrdinal{0}, 1, 0.0, WorldSize{1}, {}, {part}}));
  CHECK(text_of(committed.read("a")) == "mine");
  CHECK(names_below(folder.path()) == Names{"checkpoint_000001"});
}

TEST_CASE("sweep removes the leftovers of earlier starts and nothing else") {
  TemporaryFolder const folder;
  for (auto const* name : {".staging-1-0/rank_0000/a", ".staging-2-9/merged/manifest.json", ".trash-2-4/a",
                           ".staging-3-0/a", ".trash-3-1/a", ".staging-4-0/a", "checkpoint_000001/a", "notes.txt",
                           ".staging-1-0-0badcafe/a", ".staging-1-0-notes/a", ".staging-x-0/a", ".trash-1/a"}) {
    write_text(folder.path() / name, "x");
  }
  std::filesystem::create_directory_symlink(folder.path() / "checkpoint_000001", folder.path() / ".staging-1-0/link");
  DirectoryStore{folder.path(), 3}.sweep();
  CHECK(names_below(folder.path()) == Names{".staging-1-0-notes", ".staging-3-0", ".staging-4-0", ".staging-x-0",
                                            ".trash-1", ".trash-3-1", "checkpoint_000001", "notes.txt"});
  CHECK(names_below(folder.path() / "checkpoint_000001") == Names{"a"});
  DirectoryStore{folder.path() / "nothing", 3}.sweep();
}

TEST_CASE("of a link in a leftover's or a checkpoint's place the link goes, and what it leads to stays") {
  TemporaryFolder const folder;
  auto const checkpoints = folder.path() / "checkpoints";
  auto const archive = folder.path() / "archive";
  std::filesystem::create_directory(checkpoints);
  DirectoryStore store{checkpoints, 2};
  commit(store, {draft_of({{"a", "archived"}})});
  std::filesystem::rename(store.path_of(CheckpointNumber{1}), archive);
  std::filesystem::create_directory_symlink(archive, store.path_of(CheckpointNumber{1}));
  std::filesystem::create_directory_symlink(archive, checkpoints / ".staging-1-0");
  std::filesystem::create_directory_symlink(archive, checkpoints / ".trash-1-7");
  std::filesystem::create_directory_symlink(archive, checkpoints / ".trash-2-1");  // where remove() moves it
  store.sweep();
  CHECK(names_below(checkpoints) == Names{".trash-2-1", "checkpoint_000001"});
  CHECK(newest(store));
  store.remove(CheckpointNumber{1});
  CHECK(names_below(checkpoints).empty());
  CHECK(Checkpoint::from_directory(archive).number().value == 1);
  CHECK(read_text(archive / "a") == "archived");
}

TEST_CASE("writes that take a few bytes at a time lose nothing") {
  TemporaryFolder const folder;
  FaultyFiles files;
  files.write_bytes = 7;
  DirectoryStore store{folder.path(), files};
  store.begin(1, {});
  std::string const text(1000, 'x');
  auto const checkpoint = commit(store, {draft_of({{"a", text}})});
  CHECK(text_in(checkpoint, "a") == text);
}

TEST_CASE("exactly the space that a part needs is enough, and a disk that does not say what is free is written to") {
  TemporaryFolder const folder;
  FaultyFiles files;
  DirectoryStore store{folder.path(), files};
  store.begin(StartId{1}, {});
  auto const part = draft_of({{"model", std::string(5000, 'x')}});
  std::uint64_t const needed = 6 * 4096;
  files.free_bytes_said = needed - 1;
  CHECK(thrown_error([&] { store.stage(part, Rank{0}, {0}); }).find("needs 24576 bytes, and 24575 are free") !=
        std::string::npos);
  files.free_bytes_said = needed;
  CHECK(store.stage(part, Rank{0}, {0}).files.size() == 1);
  files.free_bytes_said.reset();
  CHECK(store.stage(part, Rank{0}, {1}).files.size() == 1);
}

TEST_CASE("a call that a signal interrupts is made again") {
  TemporaryFolder const folder;
  FaultyFiles files;
  std::map<std::string, int> calls;
  files.before = [&](std::string const& step) {
    return (step == "write" || step == "sync") && ++calls[step] % 2 == 1 ? EINTR : 0;
  };
  DirectoryStore store{folder.path(), files};
  store.begin(1, {});
  auto const checkpoint = commit(store, {draft_of({{"a", "x"}, {"folder/b", "y"}})});
  checkpoint.verify();
  CHECK(text_in(checkpoint, "folder/b") == "y");
  CHECK(calls["write"] == 2 * 3);       // two files and the manifest, each interrupted and made again
  CHECK(calls["sync"] == 2 * (3 + 3));  // and the folders of the second file, the checkpoint and the store
}

TEST_CASE("whatever step of a commit fails is an error with path, cause and remedy, and adds no checkpoint") {
  auto failures = 0;
  for (auto const problem : {ENOSPC, EIO, EROFS, EDQUOT}) {
    for (auto step = 0;; ++step) {
      TemporaryFolder const folder;
      DirectoryStore good{folder.path(), 1};
      commit(good, {draft_of({{"a", "old"}})});
      FaultyFiles files;
      auto left = step;
      files.before = [&](std::string const& name) {
        // Removing what is left over may fail without harm.
        if (name.starts_with("remove")) return 0;
        return left-- == 0 ? problem : 0;
      };
      DirectoryStore store{folder.path(), files};
      store.begin(2, {});
      CAPTURE(step);
      CAPTURE(problem);
      std::string text;
      try {
        commit(store, {draft_of({{"a", "new"}, {"d/b", "x"}}), draft_of({{"c", "y"}}).per_rank()});
        break;
      } catch (Error const& error) {
        CHECK(error.code() == Errc::io);
        text = error.what();
      }
      ++failures;
      check_contains(text, folder.path().string());
      check_contains(text, "(errno " + std::to_string(problem) + ")");
      check_contains(text, problem == EIO ? "look at the system's log" : "RunConfig::storage_path");
      Skipped skipped;
      auto const found = newest(good, &skipped);
      REQUIRE(found);
      CHECK(found->number().value == 1);
      CHECK(skipped.empty());
      store.discard(CheckpointOrdinal{0});
      CHECK(names_below(folder.path()) == Names{"checkpoint_000001"});
    }
  }
  CHECK(failures > 80);
}

TEST_CASE("a file that takes no bytes and names no cause is an error, not an endless loop") {
  struct FullFiles : detail::FileSystem {
    auto write(int, BytesView) -> ::ssize_t override { return 0; }
  };
  TemporaryFolder const folder;
  FullFiles files;
  DirectoryStore store{folder.path(), files};
  store.begin(1, {});
  check_contains(thrown_error([&] {
                   return store.stage(draft_of({{"a", "x"}}), Rank{0}, CheckpointOrdinal{0});
                 }),
                 "free space there");
}

TEST_CASE("staging into a directory that was removed is an error that says so") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path() / "gone", 1};
  check_contains(thrown_error([&] {
                   return store.stage(draft_of({{"a", "x"}}), Rank{0}, CheckpointOrdinal{0});
                 }),
                 "it was removed or renamed");
}

TEST_CASE("scored takes the attribute's number, and nothing where there is none") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), 1};
  auto checkpoint = std::uint64_t{0};
  for (auto const& metrics : {Metrics{{"loss", 0.5}}, Metrics{{"loss", "text"}}, Metrics{}}) {
    CheckpointOrdinal const ordinal{checkpoint++};
    auto const part = store.stage(draft_of({{"a", "x"}}), Rank{0}, ordinal);
    (void)store.commit({ordinal, ordinal.value + 1, 0.0, WorldSize{1}, metrics, {part}});
  }
  auto const result = scored(store.list(), {.score_attribute = "loss"});
  REQUIRE(result.size() == 3);
  CHECK(result[0].score == 0.5);
  CHECK_FALSE(result[1].score);
  CHECK_FALSE(result[2].score);
  CHECK(result[2].number.value == 3);
}
