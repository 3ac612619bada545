// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/checkpoint_draft.hpp>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

using namespace raytrain;

TEST_CASE("a file's name that leads outside, is no name, or is raytrain's own is refused, and the message says why") {
  struct {
    std::string name;
    char const* why;
  } const cases[] = {
      {"", "is empty"},
      {"/etc/passwd", "is absolute"},
      {"..", "has the part '..'"},
      {"../x", "has the part '..'"},
      {"a/../x", "has the part '..'"},
      {"./x", "has the part '.'"},
      {"a//b", "has an empty part"},
      {"a/", "has an empty part"},
      {"manifest.json", "is the name of raytrain's own list of files"},
      {"manifest.json/x", "is the name of raytrain's own list of files"},
      {std::string{"a\0b", 3}, "has a control character"},
      {"a\nb", "has a control character"},
      {"a\xFF", "is not UTF-8"},
      {std::string(256, 'a'), "has a part longer than 255 bytes"},
      {std::string(1025, '/'), "is longer than 1024 bytes"},
  };
  for (auto const& [name, why] : cases) {
    CheckpointDraft draft;
    auto const text = thrown_error([&] {
      draft.add(name, Bytes{});
      return 0;
    });
    check_contains(text, "invalid_report: adding the file '");
    check_contains(text, why);
    check_contains(text, "name it relative to the checkpoint");
    CHECK(draft.empty());
  }
}

TEST_CASE("names that look odd and are harmless are taken") {
  CheckpointDraft draft;
  for (auto const* name : {"...", "a b", ".hidden", "x/manifest.json", "\xC3\xA4.pt", "a\\b", "-rf"})
    draft.add(name, "x");
  CHECK(draft.files().size() == 7);
}

TEST_CASE("a name that was added before, or is a folder of one, is refused") {
  CheckpointDraft draft;
  draft.add("model/weights", "w").add("model.pt", "m");
  check_contains(thrown_error([&] {
                   draft.add("model.pt", "");
                   return 0;
                 }),
                 "it was added before; give one of the two another name");
  check_contains(thrown_error([&] {
                   draft.add("model", "");
                   return 0;
                 }),
                 "'model/weights' was added before, and one is a folder");
  check_contains(thrown_error([&] {
                   draft.add("model.pt/x", "");
                   return 0;
                 }),
                 "'model.pt' was added before, and one is a folder");
  draft.add("model-2", "fine: sorts between the folder and what is in it");
}

TEST_CASE("metadata that is not UTF-8 is refused, since no manifest could hold it") {
  CheckpointDraft draft;
  check_contains(thrown_error([&] {
                   draft.set_metadata("k", "\x80");
                   return 0;
                 }),
                 "invalid_report: CheckpointDraft::set_metadata: 'k'");
  draft.set_metadata("k", "1").set_metadata("k", "2");
  CHECK(draft.metadata().at("k") == "2");
}

TEST_CASE("a replicated draft is filled on rank 0 only, once, and is empty on the others") {
  auto calls = 0;
  auto const draft = CheckpointDraft::replicated([&](CheckpointDraft& self) {
    ++calls;
    self.add("model.pt", "weights").set_metadata("k", "v");
  });
  for (auto const rank : {0U, 1U, 7U}) {
    auto mine = draft;
    CHECK_FALSE(mine.is_filled());
    mine.fill(Rank{rank});
    mine.fill(Rank{rank});
    CHECK(mine.is_filled());
    CHECK(mine.empty() == (rank != 0));
    CHECK(mine.metadata().size() == (rank == 0 ? 1 : 0));
  }
  CHECK(calls == 1);
}

TEST_CASE("copies of a draft share the contents of its files") {
  CheckpointDraft draft;
  draft.add("a", Bytes(1000));
  auto const copy = draft;
  CHECK(copy.files().at("a").view().data() == draft.files().at("a").view().data());
}

TEST_CASE("a draft keeps bytes of another origin where they are, until no copy of it is left") {
  auto owner = std::make_shared<std::string>("weights");
  std::weak_ptr<std::string> const origin = owner;
  CheckpointDraft draft;
  draft.add("a", CheckpointDraft::Content{bytes_of(*owner), owner});
  CHECK(draft.files().at("a").view().data() == bytes_of(*owner).data());
  owner.reset();
  CHECK_FALSE(origin.expired());
  auto copy = std::make_unique<CheckpointDraft>(draft);
  draft = {};
  CHECK(text_of(copy->files().at("a").view()) == "weights");
  copy.reset();
  CHECK(origin.expired());
}

TEST_CASE("a draft from a directory holds what was in it when it was made, although the directory is gone") {
  TemporaryFolder const folder;
  write_text(folder.path() / "user/model.pt", "weights");
  write_text(folder.path() / "user/deep/er/b", "");
  auto const draft = CheckpointDraft::from_directory(folder.path() / "user");
  std::filesystem::remove_all(folder.path() / "user");
  REQUIRE(draft.files().size() == 2);
  CHECK(text_of(draft.files().at("model.pt").view()) == "weights");
  CHECK(draft.files().contains("deep/er/b"));
  check_contains(thrown_error([&] { return CheckpointDraft::from_directory(folder.path() / "user"); }),
                 "there is no such directory");
}

TEST_CASE("a rank's own file lies in its folder, and not in what another rank copies of rank 0's") {
  auto draft = CheckpointDraft::replicated([](CheckpointDraft& all) { all.add("model", "m"); });
  draft.add_own("sums", {std::byte{1}});
  auto copy = draft.without_own();
  copy.fill(Rank{0});
  CHECK(copy.files_of(Rank{0}).size() == 1);
  draft.fill(Rank{1});
  auto const files = draft.files_of(Rank{1});
  REQUIRE(files.size() == 1);
  CHECK(files.begin()->first == "rank_0001/sums");
  CHECK_THROWS_WITH_AS(draft.add("sums", "again"), doctest::Contains("it was added before"), Error);
}

TEST_CASE("a file that is incomplete is completed at once, unless it is added inside report") {
  int calls = 0;
  auto const add = [&](CheckpointDraft& part) {
    part.add_incomplete("model", SharedBytes{Bytes{}}, [&](auto const&) { ++calls; });
  };
  CheckpointDraft draft;
  add(draft);
  CHECK(calls == 1);
  CHECK(draft.is_complete());
  auto filled = CheckpointDraft::replicated(add);
  filled.fill(Rank{0});
  CHECK(calls == 2);
  CHECK(filled.is_complete());
  auto reported = CheckpointDraft::replicated(add);
  reported.fill(Rank{0}, SnapshotBuffers{});
  CHECK(calls == 2);
  CHECK_FALSE(reported.is_complete());
  CHECK_FALSE(reported.may_be_incomplete());
}

TEST_CASE(
    "who reads a draft's files inside report gets them with their contents, and who asks for a name does not wait") {
  int calls = 0;
  auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
    part.add_incomplete("model", SharedBytes{Bytes{}}, [&](auto const&) { ++calls; });
    CHECK(part.contains("model"));
    CHECK(calls == 0);
    CHECK(part.files().size() == 1);
    CHECK(calls == 1);
  });
  draft.fill(Rank{0}, SnapshotBuffers{});
  draft.wait_until_complete();
  CHECK(calls == 1);
}

TEST_CASE(
    "a file that is incomplete is completed once for all copies of a draft, and what that throws is known to all") {
  int calls = 0;
  auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
    part.add_incomplete("model", SharedBytes{Bytes{}}, [&](auto const&) {
      ++calls;
      throw std::runtime_error{"the device is lost"};
    });
  });
  draft.fill(Rank{0}, SnapshotBuffers{});
  auto const copy = draft;
  CHECK_THROWS_WITH(draft.wait_until_complete(), "the device is lost");
  CHECK_THROWS_WITH(copy.wait_until_complete(), "the device is lost");
  CHECK(calls == 1);
}
