// SPDX-License-Identifier: Apache-2.0
// What every model of `CheckpointStore` must do, written once. A test program names the `Storage`s that its stores are
// in:
//   TEST_CASE_TEMPLATE_INVOKE(checkpoint_store_conformance, MyStorage);
// A storage is default-constructible, empty at first, and has
//   store()               a std::unique_ptr to a new store there, as a process that starts makes it;
//   damage(number, name)  changes a byte of that file of a checkpoint, behind the stores' backs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::testing {

/// Names and texts of files.
using TextFiles = std::vector<std::pair<std::string, std::string>>;

inline auto draft_of_texts(TextFiles const& files) -> CheckpointDraft {
  CheckpointDraft draft;
  for (auto const& [name, text] : files) draft.add(name, text);
  return draft;
}

/// What a checkpoint holds, every byte verified.
inline auto texts_of(Checkpoint const& checkpoint) -> TextFiles {
  checkpoint.verify();
  TextFiles files;
  for (auto const& file : checkpoint.files()) {
    files.emplace_back(file.name, std::string{text_of(checkpoint.read(file.name))});
    CHECK(text_of(checkpoint.view(file.name).view()) == files.back().second);
  }
  return files;
}

/// Commits the parts of all ranks as they are staged.
inline auto commit_parts(CheckpointStore& store, std::vector<CheckpointRef> parts, CheckpointOrdinal checkpoint = {})
    -> Checkpoint {
  CommitRequest request;
  request.checkpoint = checkpoint;
  request.training_iteration = checkpoint.value + 1;
  request.world_size = WorldSize{static_cast<std::uint32_t>(parts.size())};
  request.metrics = {{"loss", 0.5}};
  request.parts = std::move(parts);
  return store.open(store.commit(request));
}

/// Stages and commits what one rank has.
inline auto commit_texts(CheckpointStore& store, TextFiles const& files, CheckpointOrdinal checkpoint = {})
    -> Checkpoint {
  return commit_parts(store, {store.stage(draft_of_texts(files), Rank{0}, checkpoint)}, checkpoint);
}

/// The code of the error that `call` throws.
inline auto error_code_of(std::function<void()> const& call) -> std::string {
  try {
    call();
  } catch (Error const& error) {
    return std::string{to_string(error.code())};
  }
  return "nothing";
}

/// The newest whole checkpoint's number, and in front of it those that were skipped: "3 2 1".
inline auto newest_numbers(CheckpointStore const& store) -> std::string {
  std::string numbers;
  auto const found = store.newest_valid([&](CheckpointNumber number, std::string const&, std::string_view) {
    numbers += std::to_string(number.value) + " ";
  });
  return numbers + (found ? std::to_string(found->number().value) : "none");
}

}  // namespace raytrain::testing

TEST_CASE_TEMPLATE_DEFINE("a store of checkpoints", Storage, checkpoint_store_conformance) {
  using namespace raytrain;
  using namespace raytrain::testing;
  Storage storage;
  auto const start = [&](StartId id, std::string run_id = "run") {
    std::unique_ptr<CheckpointStore> store = storage.store();
    store->begin(std::move(id), std::move(run_id));
    store->check_usable();
    (void)store->create();
    return store;
  };
  TextFiles const some{{"a/b", "x"}, {"empty", ""}, {"model", std::string(100'000, 'm')}};

  SUBCASE("that nothing was committed to has none, and says where it is") {
    auto const store = start(1);
    CHECK(store->numbers().empty());
    CHECK(newest_numbers(*store) == "none");
    CHECK_FALSE(store->location().empty());
    CHECK(error_code_of([&] { (void)store->open(CheckpointNumber{1}); }) == "not_found");
  }

  SUBCASE("gives back what ranks wrote, to every later process, as one checkpoint") {
    auto const store = start(1);
    std::vector<CheckpointRef> parts{store->stage(draft_of_texts({{"shared", "s"}, {"x/y", ""}}), Rank{0}, {}),
                                     store->stage(draft_of_texts({{"opt", "1"}}).per_rank(), Rank{1}, {}),
                                     store->stage(CheckpointDraft{}, Rank{2}, {})};
    CHECK(store->numbers().empty());
    auto const made = commit_parts(*store, std::move(parts));
    TextFiles const expected{{"rank_0001/opt", "1"}, {"shared", "s"}, {"x/y", ""}};
    CHECK(made.number().value == 1);
    CHECK(texts_of(made) == expected);
    auto const later = start(2);
    CHECK(later->numbers() == std::vector<CheckpointNumber>{{1}});
    auto const found = later->open(CheckpointNumber{1});
    CHECK(texts_of(found) == expected);
    CHECK(found.location() == made.location());
    CHECK(found.metrics().number("loss") == 0.5);
    CHECK(found.start() == 1);
    CHECK(found.run_id() == "run");
    CHECK(texts_of(start(2)->list().at(0)) == expected);
  }

  SUBCASE("holds checkpoints of metadata alone") {
    auto const store = start(1);
    CheckpointRef const part{Rank{0}, {}, {}, {{"epoch", "3"}}};
    CHECK(commit_parts(*store, {part}).files().empty());
    CHECK(start(2)->open(CheckpointNumber{1}).metadata().at("epoch") == "3");
  }

  SUBCASE("numbers them from 1, in ascending order, and never gives a number again") {
    auto const store = start(1);
    for (std::uint64_t i = 0; i < 11; ++i) CHECK(commit_texts(*store, some, {i}).number().value == i + 1);
    store->remove(CheckpointNumber{11});
    CHECK(commit_texts(*store, some, {11}).number().value == 12);
    auto const later = start(2);
    CHECK(commit_texts(*later, some).number().value == 13);
    auto const numbers = later->numbers();
    REQUIRE(numbers.size() == 12);
    CHECK(std::ranges::is_sorted(numbers));
    CHECK(numbers.back() == CheckpointNumber{13});
  }

  SUBCASE("replaces a part that is staged again, and leaves nothing of the one before") {
    auto const store = start(1);
    (void)store->stage(draft_of_texts({{"a", "old"}, {"b", "old"}}), Rank{0}, {});
    CHECK(texts_of(commit_texts(*store, {{"a", "new"}})) == TextFiles{{"a", "new"}});
  }

  SUBCASE("refuses what another start has staged, and what it has not") {
    auto const before = start(1);
    auto const stale = before->stage(draft_of_texts({{"a", "old"}}), Rank{0}, {});
    auto const store = start(2);
    CHECK(error_code_of([&] { (void)commit_parts(*store, {stale}); }) == "invalid_call");
    (void)store->stage(draft_of_texts({{"a", "newer"}}), Rank{0}, {});
    CHECK(error_code_of([&] { (void)commit_parts(*store, {stale}); }) == "invalid_call");
    CHECK(store->numbers().empty());
    CHECK(texts_of(commit_texts(*store, {{"a", "newest"}}, {1})) == TextFiles{{"a", "newest"}});
  }

  SUBCASE("keeps the parts of two starts with one number apart by their ids") {
    auto const store = start({1, "00000001"});
    auto const other = start({1, "00000002"});
    auto const part = store->stage(draft_of_texts({{"a", "mine"}}), Rank{0}, {});
    (void)other->stage(draft_of_texts({{"a", "its"}}), Rank{0}, {});
    other->discard({});
    CHECK(texts_of(commit_parts(*store, {part})) == TextFiles{{"a", "mine"}});
  }

  SUBCASE("forgets what is discarded, and discards what is not there") {
    auto const store = start(1);
    auto const part = store->stage(draft_of_texts(some), Rank{0}, {});
    store->discard({});
    store->discard({});
    CHECK(error_code_of([&] { (void)commit_parts(*store, {part}); }) == "invalid_call");
    CHECK(store->numbers().empty());
  }

  SUBCASE("sweeps what earlier starts have left") {
    StartId const earlier{1, "00000001"};
    auto const stale = start(earlier)->stage(draft_of_texts(some), Rank{0}, {});
    start(2)->sweep();
    CHECK(error_code_of([&] { (void)commit_parts(*start(earlier), {stale}); }) == "invalid_call");
  }

  SUBCASE("sweeps neither checkpoints nor what this start has staged") {
    (void)start(1)->stage(draft_of_texts(some), Rank{0}, {});
    auto const store = start(2);
    (void)commit_texts(*store, some, {7});
    auto const part = store->stage(draft_of_texts(some), Rank{0}, {8});
    store->sweep();
    CHECK(texts_of(commit_parts(*store, {part}, {8})) == some);
    CHECK(newest_numbers(*store) == "2");
    CHECK(texts_of(store->open(CheckpointNumber{1})) == some);
  }

  SUBCASE("takes damage for damage, and goes on from the one before") {
    auto const store = start(1);
    for (std::uint64_t i = 0; i < 4; ++i) (void)commit_texts(*store, some, {i});
    storage.damage(CheckpointNumber{4}, "model");
    storage.damage(CheckpointNumber{3}, "manifest.json");
    CHECK(newest_numbers(*store) == "4 3 2");
    CHECK(error_code_of([&] { store->open(CheckpointNumber{4}).verify(); }) == "corrupt_checkpoint");
    CHECK(error_code_of([&] { (void)store->open(CheckpointNumber{4}).read("model"); }) == "corrupt_checkpoint");
    CHECK(error_code_of([&] { (void)store->open(CheckpointNumber{4}).view("model"); }) == "corrupt_checkpoint");
    CHECK(error_code_of([&] { (void)store->open(CheckpointNumber{3}); }) == "corrupt_checkpoint");
    CHECK(store->list().size() == 3);
    CHECK(commit_texts(*store, some, {4}).number().value == 5);
    storage.damage(CheckpointNumber{1}, "a/b");
    storage.damage(CheckpointNumber{2}, "a/b");
    storage.damage(CheckpointNumber{5}, "a/b");
    CHECK(error_code_of([&] { (void)newest_numbers(*store); }) == "corrupt_checkpoint");
  }

  SUBCASE("refuses the checkpoints of another run") {
    (void)commit_texts(*start(1, "mine"), some);
    auto const store = start(1, "another");
    CHECK(error_code_of([&] { (void)store->open(CheckpointNumber{1}); }) == "foreign_run");
    CHECK(error_code_of([&] { (void)newest_numbers(*store); }) == "foreign_run");
    CHECK(store->list().empty());
    CHECK(texts_of(start(1, "")->open(CheckpointNumber{1})) == some);
  }

  SUBCASE("removes one whole, and says so to those who have it open") {
    auto const store = start(1);
    auto const first = commit_texts(*store, some);
    auto const second = commit_texts(*store, {{"b", "2"}}, {1});
    store->remove(CheckpointNumber{1});
    CHECK(store->numbers() == std::vector<CheckpointNumber>{{2}});
    CHECK(error_code_of([&] { first.verify(); }) == "not_found");
    CHECK(error_code_of([&] { (void)first.read("model"); }) == "not_found");
    CHECK(error_code_of([&] { store->remove(CheckpointNumber{1}); }) == "not_found");
    CHECK(texts_of(second) == TextFiles{{"b", "2"}});
  }

  SUBCASE("is empty when it is cleared, as often as that is done, and can be used again") {
    auto const store = start(1);
    (void)commit_texts(*store, some);
    auto const part = store->stage(draft_of_texts(some), Rank{0}, {1});
    auto const anew = start(1);  // the same number again, as where a record was lost
    anew->check_clearable();
    anew->clear();
    anew->clear();
    CHECK(anew->numbers().empty());
    (void)anew->create();
    CHECK(error_code_of([&] { (void)commit_parts(*anew, {part}, {1}); }) == "invalid_call");
    CHECK(texts_of(commit_texts(*anew, some)) == some);
    CHECK(start(3)->numbers() == std::vector<CheckpointNumber>{{1}});
  }

  SUBCASE("takes the parts of ranks at the same time, and is read meanwhile") {
    constexpr std::uint32_t world = 8;
    auto const store = start(1);
    (void)commit_texts(*store, some);
    std::vector<CheckpointRef> parts(world);
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      ranks.emplace_back([&, rank] {
        parts[rank] =
            store->stage(draft_of_texts({{"own", std::string(1000 * rank, 'o')}}).per_rank(), Rank{rank}, {1});
        store->open(CheckpointNumber{1}).verify();
      });
    }
    ranks.clear();
    auto const made = commit_parts(*store, std::move(parts), {1});
    CHECK(texts_of(made).size() == world);
  }
}
