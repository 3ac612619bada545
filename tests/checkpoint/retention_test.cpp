// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/retention.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace raytrain;

namespace {

using Numbers = std::vector<CheckpointNumber>;
constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("without num_to_keep every checkpoint stays") {
  CHECK(checkpoints_to_delete({{{1}, {}}, {{2}, {}}, {{3}, {}}}, {}).empty());
  CHECK(checkpoints_to_delete({}, {.num_to_keep = 1}).empty());
}

TEST_CASE("without a score attribute the newest stay, even if there are scores") {
  CHECK(checkpoints_to_delete({{{4}, 9.0}, {{2}, 1.0}, {{3}, {}}, {{1}, 5.0}}, {.num_to_keep = 2}) ==
        Numbers{{1}, {2}});
}

TEST_CASE("the best stay by the order that is asked for, and the newest beside them") {
  std::vector<ScoredCheckpoint> const all{{{1}, 0.9}, {{2}, 0.1}, {{3}, 0.8}, {{4}, 0.5}};
  CHECK(checkpoints_to_delete(all, {.num_to_keep = 2, .score_attribute = "a"}) == Numbers{{2}});
  CHECK(checkpoints_to_delete(all, {.num_to_keep = 1, .score_attribute = "a"}) == Numbers{{2}, {3}});
  CHECK(checkpoints_to_delete(all, {.num_to_keep = 1, .score_attribute = "a", .score_order = ScoreOrder::min}) ==
        Numbers{{1}, {3}});
}

TEST_CASE("among equal scores the newer one stays") {
  CHECK(checkpoints_to_delete({{{1}, 0.5}, {{2}, 0.5}, {{3}, 0.1}}, {.num_to_keep = 1, .score_attribute = "a"}) ==
        Numbers{{1}});
}

TEST_CASE("a score that is missing or not finite is the worst of all, in either order") {
  for (auto const order : {ScoreOrder::max, ScoreOrder::min}) {
    CheckpointConfig const config{.num_to_keep = 2, .score_attribute = "a", .score_order = order};
    CHECK(checkpoints_to_delete({{{1}, not_a_number}, {{2}, -1e300}, {{3}, {}}, {{4}, 1e300}, {{5}, not_a_number}},
                                config) == Numbers{{1}, {3}});
    auto const infinity = std::numeric_limits<double>::infinity();
    CHECK(checkpoints_to_delete({{{1}, 0.5}, {{2}, infinity}, {{3}, -infinity}, {{4}, -0.5}, {{5}, {}}}, config) ==
          Numbers{{2}, {3}});
  }
}

TEST_CASE("whatever the scores, the newest stays, at most one too many is kept, and no worse one than a deleted one") {
  auto const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  for (auto round = 0; round < 2000; ++round) {
    std::vector<ScoredCheckpoint> all;
    auto const count = 1 + random() % 8;
    for (std::uint64_t number = 1; number <= count; ++number) {
      auto const kind = random() % 6;
      all.push_back({CheckpointNumber{number},
                     kind == 0 ? std::nullopt : std::optional{kind == 1 ? not_a_number : static_cast<double>(kind)}});
    }
    std::ranges::shuffle(all, random);
    auto const keep = static_cast<int>(1 + random() % 5);
    auto const deleted = checkpoints_to_delete(all, {.num_to_keep = keep, .score_attribute = "a"});
    auto const is_deleted = [&](CheckpointNumber number) {
      return std::ranges::find(deleted, number) != deleted.end();
    };
    CHECK_FALSE(is_deleted(CheckpointNumber{count}));
    auto const kept = count - deleted.size();
    CHECK(kept >= std::min<std::uint64_t>(count, static_cast<std::uint64_t>(keep)));
    CHECK(kept <= static_cast<std::uint64_t>(keep) + 1);
    auto const value = [](ScoredCheckpoint const& c) {
      return c.score && !std::isnan(*c.score) ? *c.score : -std::numeric_limits<double>::infinity();
    };
    for (auto const& a : all) {
      for (auto const& b : all) {
        if (is_deleted(a.number) && !is_deleted(b.number) && b.number.value != count) CHECK(value(b) >= value(a));
      }
    }
  }
}
