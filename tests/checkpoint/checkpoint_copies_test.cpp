// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/checkpoint_copies.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/core/bytes.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "../support/watched_reads.hpp"
#include "committed.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
using raytrain::testing::WatchedReads;

namespace {

auto shared(std::string const& text) -> SharedBytes {
  auto const bytes = bytes_of(text);
  return SharedBytes{Bytes{bytes.begin(), bytes.end()}};
}

auto text_of_copy(CheckpointCopies const& copies, std::uint64_t number, std::string const& name) -> std::string {
  auto const copy = copies.find(CheckpointNumber{number}, name);
  return copy ? std::string{text_of(copy->view())} : "none";
}

// Committed under that number.
void settle(CheckpointCopies& copies, std::uint64_t ordinal, std::uint64_t number) {
  copies.settle(CheckpointSettled{CheckpointOrdinal{ordinal}, CheckpointNumber{number}});
}

}  // namespace

TEST_CASE("a copy is there from its commit on, with the parts of all ranks, until the next one's") {
  CheckpointCopies copies;
  copies.add(CheckpointOrdinal{0}, {{"model", shared("weights")}});
  copies.add(CheckpointOrdinal{0}, {{"rank_0001/generator", shared("numbers")}});
  CHECK(text_of_copy(copies, 0, "model") == "none");
  CHECK(text_of_copy(copies, 7, "model") == "none");
  settle(copies, 0, 7);
  CHECK(text_of_copy(copies, 7, "model") == "weights");
  CHECK(text_of_copy(copies, 7, "rank_0001/generator") == "numbers");
  CHECK(text_of_copy(copies, 6, "model") == "none");
  copies.add(CheckpointOrdinal{1}, {{"model", shared("better")}});
  CHECK(text_of_copy(copies, 7, "model") == "weights");
  settle(copies, 1, 8);
  CHECK(text_of_copy(copies, 7, "model") == "none");
  CHECK(text_of_copy(copies, 8, "model") == "better");
}

TEST_CASE("one that is never committed takes nothing from the one before, nor does an attempt that is over") {
  CheckpointCopies copies;
  copies.add(CheckpointOrdinal{0}, {{"model", shared("weights")}});
  settle(copies, 0, 1);
  copies.add(CheckpointOrdinal{1}, {{"model", shared("lost")}});
  copies.settle(CheckpointSettled{CheckpointOrdinal{1}, {}});
  settle(copies, 1, 2);
  CHECK(text_of_copy(copies, 2, "model") == "none");
  copies.add(CheckpointOrdinal{2}, {{"model", shared("kept")}});
  settle(copies, 2, 3);
  copies.add(CheckpointOrdinal{3}, {{"model", shared("unfinished")}});
  copies.drop_uncommitted();
  CHECK(text_of_copy(copies, 3, "model") == "kept");
  settle(copies, 3, 4);
  CHECK(text_of_copy(copies, 4, "model") == "none");
}

TEST_CASE("what another rank has given takes the place of a copy of another checkpoint alone") {
  CheckpointCopies copies;
  copies.add(CheckpointOrdinal{0}, {{"model", shared("old")}, {"optimizer", shared("old")}});
  settle(copies, 0, 1);
  copies.add(CheckpointNumber{2}, "model", shared("new"));
  CHECK(text_of_copy(copies, 1, "optimizer") == "none");
  CHECK(text_of_copy(copies, 2, "optimizer") == "none");
  copies.add(CheckpointNumber{2}, "optimizer", shared("new"));
  CHECK(text_of_copy(copies, 2, "model") == "new");
  CHECK(text_of_copy(copies, 2, "optimizer") == "new");
}

TEST_CASE("a checkpoint is read from a copy, also when its file is gone, and from the store where the copy is wrong") {
  TemporaryFolder const folder;
  std::vector<std::string> reads;
  WatchedReads store{folder.path(), [&](std::string const& name) { reads.push_back(name); }};
  store.begin(StartId{1}, {});
  auto const plain = commit(store, {draft_of({{"model", "weights"}, {"notes", "none"}})});
  auto copies = std::make_shared<CheckpointCopies>();
  std::optional const checkpoint = plain.with_copies(copies);
  auto const keep = [&](std::string const& text) { copies->add(CheckpointNumber{1}, "model", shared(text)); };
  SUBCASE("right") {
    keep("weights");
    std::filesystem::remove(store.path_of(CheckpointNumber{1}) / "model");
    CHECK(text_in(*checkpoint, "model") == "weights");
    CHECK(text_of(checkpoint->view("model").view()) == "weights");
    CHECK(reads.empty());
    check_contains(thrown_error([&] { return plain.read("model"); }), "file 'model' is missing");
  }
  SUBCASE("a bit is flipped") {
    keep("weightr");
    CHECK(text_in(*checkpoint, "model") == "weights");
    CHECK(reads == std::vector<std::string>{"model"});
  }
  SUBCASE("a byte too few") {
    keep("weight");
    CHECK(text_of(checkpoint->view("model").view()) == "weights");
    CHECK(reads == std::vector<std::string>{"model"});
  }
  SUBCASE("of another checkpoint") {
    copies->add(CheckpointNumber{2}, "model", shared("weights"));
    CHECK(text_in(*checkpoint, "model") == "weights");
    CHECK(reads == std::vector<std::string>{"model"});
  }
  SUBCASE("another file") {
    keep("weights");
    CHECK(text_in(*checkpoint, "notes") == "none");
    CHECK(reads == std::vector<std::string>{"notes"});
  }
  SUBCASE("when the copies are gone") {
    keep("weights");
    copies.reset();
    CHECK(text_in(*checkpoint, "model") == "weights");
    CHECK(reads == std::vector<std::string>{"model"});
  }
}

TEST_CASE("of a checkpoint that is kept in memory no file is read to find it, and one that is too short is seen") {
  TemporaryFolder const folder;
  std::vector<std::string> reads;
  WatchedReads store{folder.path(), [&](std::string const& name) { reads.push_back(name); }};
  store.begin(StartId{1}, {});
  (void)commit(store, {draft_of({{"model", "weights"}})});
  (void)commit(store, {draft_of({{"model", "better"}})}, 1);
  auto const found = [&](std::uint64_t kept) {
    reads.clear();
    return store.newest_valid([](auto, auto const&, auto) {}, CheckpointNumber{kept})->number().value;
  };
  CHECK(found(2) == 2);
  CHECK(reads.empty());
  CHECK(found(1) == 2);
  CHECK(reads == std::vector<std::string>{"model"});
  std::filesystem::resize_file(store.path_of(CheckpointNumber{2}) / "model", 5);
  CHECK(found(2) == 1);
}
