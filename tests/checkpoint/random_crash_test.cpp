// SPDX-License-Identifier: Apache-2.0
// Power that fails at random moments of random histories of a store. RAYTRAIN_TEST_KILL_POINTS says how many are tried.
#include <raytrain/checkpoint/directory_store.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "committed.hpp"
#include "volatile_files.hpp"

using raytrain::testing::TemporaryFolder;

using namespace raytrain;

namespace {

// A run whose starts commit, discard and remove checkpoints by random. Before each step that changes the disk the power
// may fail, and what is then left is looked at as the next start does.
class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed) : random_{static_cast<std::uint32_t>(seed)} {
    std::filesystem::create_directory(live_);
    files_.emplace(live_);
    files_->before = [this] {
      if (below(8) == 0) fail_power();
    };
  }

  void start() {
    store_.emplace(live_, *files_);
    ++start_;
    store_->begin({start_, std::to_string(10'000'000 + start_)}, "run");
    store_->sweep();
    checkpoint_ = 0;
  }

  void act() {
    auto const what = below(10);
    if (what == 0) return start();
    if (what == 1) return stage_and_discard();
    commit();
    while (promised_.size() > 2) remove_oldest();
  }

  [[nodiscard]] auto kill_points() const -> int { return kill_points_; }

 private:
  auto below(std::size_t limit) -> std::size_t {
    return std::uniform_int_distribution<std::size_t>{0, limit - 1}(random_);
  }

  // Of one rank; `all` gets what the checkpoint then holds.
  auto random_draft(std::uint32_t rank, Contents& all) -> CheckpointDraft {
    std::vector<std::string> const names{"model", "deep/er/model", "optimizer", "a"};
    Contents files;
    for (auto i = below(names.size() + 1); i > 0; --i) {
      files[names[i - 1]] = std::string(below(3) == 0 ? below(5'000) : below(20), static_cast<char>('a' + below(26)));
    }
    for (auto const& [name, text] : files) all[(rank_folder_name(Rank{rank}) + '/').append(name)] = text;
    return draft_of(files).per_rank();
  }

  void commit() {
    std::vector<CheckpointDraft> drafts;
    auto const number = number_ + 1;
    Contents files;
    for (std::uint32_t rank = 0, ranks = 1 + below(3); rank < ranks; ++rank)
      drafts.push_back(random_draft(rank, files));
    known_[number] = files;
    in_flight_ = number;
    CHECK(::commit(*store_, drafts, checkpoint_++).number().value == number);
    promised_[number] = files;
    in_flight_.reset();
    number_ = number;
  }

  void stage_and_discard() {
    Contents ignored;
    (void)store_->stage(random_draft(0, ignored), Rank{0}, {checkpoint_});
    store_->discard({checkpoint_++});
  }

  void remove_oldest() {
    auto const oldest = promised_.begin()->first;
    promised_.erase(oldest);
    removing_ = oldest;
    store_->remove({oldest});
    removing_.reset();
  }

  void fail_power() {
    ++kill_points_;
    auto const left = folder_.path() / "left";
    auto const variant = below(6);
    if (variant == 0) files_->kill(left);
    if (variant == 1) files_->lose_power(left);
    if (variant > 1) files_->lose_power(left, random_);
    check_next_start(left);
    std::filesystem::remove_all(left);
  }

  // All that was promised is offered, whole, and nothing else but what was being committed or removed.
  void check_next_start(std::filesystem::path const& left) {
    DirectoryStore store{left};
    store.begin({start_ + 1, "99999999"}, "run");
    Skipped skipped;
    auto const found = newest(store, &skipped);
    REQUIRE(skipped.empty());
    store.sweep();
    auto missing = promised_;
    for (auto const number : store.numbers()) {
      CAPTURE(number.value);
      REQUIRE((promised_.contains(number.value) || number.value == in_flight_ || number.value == removing_));
      auto const checkpoint = store.open(number);
      checkpoint.verify();
      REQUIRE(contents_of(checkpoint) == known_.at(number.value));
      missing.erase(number.value);
    }
    REQUIRE(missing.empty());
    REQUIRE(names_below(left).size() == store.numbers().size());
    auto const next = ::commit(store, {draft_of({{"next", "n"}})}).number().value;
    if (found) REQUIRE(next == found->number().value + 1);
  }

  std::mt19937 random_;
  TemporaryFolder folder_;
  std::filesystem::path live_ = folder_.path() / "live";
  std::optional<VolatileFiles> files_;
  std::optional<DirectoryStore> store_;
  std::uint64_t start_ = 0, checkpoint_ = 0, number_ = 0;
  std::map<std::uint64_t, Contents> known_,
      promised_;  // by number: all that were ever begun, and those that must be there
  std::optional<std::uint64_t> in_flight_, removing_;
  int kill_points_ = 0;
};

}  // namespace

TEST_CASE("power that fails at any moment of any history leaves every checkpoint that was promised, and no torn one") {
  auto const* const wanted = std::getenv("RAYTRAIN_TEST_KILL_POINTS");
  auto const least = wanted != nullptr ? std::stoi(wanted) : 300;
  auto kill_points = 0;
  for (auto seed = testing::random_seed(); kill_points < least; ++seed) {
    CAPTURE(seed);
    RandomRun run{seed};
    run.start();
    for (auto i = 0; i < 12; ++i) run.act();
    kill_points += run.kill_points();
  }
  MESSAGE(kill_points, " kill points");
}
