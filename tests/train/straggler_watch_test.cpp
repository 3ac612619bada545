// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/straggler_watch.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/message/message.hpp>

using namespace raytrain;

namespace {

// Each worker takes as long for itself, and waits for the slowest of them.
class World {
 public:
  explicit World(std::uint32_t size) : watch_{WorldSize{size}} {}

  auto report(std::vector<double> const& own_s, bool waits = true) -> std::optional<Straggler> {
    std::optional<Straggler> found;
    ++iteration_;
    for (std::uint32_t rank = 0; rank < own_s.size(); ++rank) {
      Report report;
      report.rank = Rank{rank};
      report.training_iteration = iteration_;
      report.time_waiting_s = waits ? 10 - own_s[rank] : 0;
      report.time_this_iter_s = own_s[rank] + report.time_waiting_s;
      auto const straggler = watch_.note(report);
      CHECK_FALSE((straggler && rank + 1 < own_s.size()));
      if (straggler) found = straggler;
    }
    return found;
  }

 private:
  StragglerWatch watch_;
  std::uint64_t iteration_ = 0;
};

}  // namespace

TEST_CASE("a worker that is twice as slow in three reports in a row is told once, with its factor") {
  World world{4};
  CHECK_FALSE(world.report({1.0, 1.0, 2.2, 1.1}));
  CHECK_FALSE(world.report({1.0, 1.0, 2.2, 1.1}));
  auto const straggler = world.report({1.0, 1.0, 2.2, 1.1});
  REQUIRE(straggler);
  CHECK(straggler->rank == Rank{2});
  CHECK(straggler->text("node-7") ==
        "rank 2 on host node-7 takes 2.2 times as long as the others for its own part of an iteration (2.20 s, their "
        "median 1.00 s), in three reports in a row: they wait for it");
  for (int i = 0; i < 5; ++i) CHECK_FALSE(world.report({1.0, 1.0, 2.2, 1.1}));
  CHECK_FALSE(world.report({3.0, 1.0, 1.0, 1.1}));
  CHECK_FALSE(world.report({3.0, 1.0, 1.0, 1.1}));
  CHECK(world.report({3.0, 1.0, 1.0, 1.1})->rank == Rank{0});
}

TEST_CASE("of two workers the slower one is found") {
  World world{2};
  CHECK_FALSE(world.report({1.0, 0.2}));
  CHECK_FALSE(world.report({1.0, 0.2}));
  CHECK(world.report({1.0, 0.2})->rank == Rank{0});
}

TEST_CASE(
    "neither small differences, nor short ones, nor ones that change hands, nor those for which nobody waits are "
    "told") {
  World alone{1};
  World alike{3};
  World quick{3};
  World changing{3};
  World recovers{3};
  World apart{3};
  for (int i = 0; i < 12; ++i) {
    CHECK_FALSE(alone.report({1.0 + i}));
    CHECK_FALSE(apart.report({3.0, 1.0, 1.0}, false));
    CHECK_FALSE(alike.report({1.0, 1.0, 1.4}));
    CHECK_FALSE(quick.report({0.001, 0.001, 0.05}));
    CHECK_FALSE(changing.report(i % 2 == 0 ? std::vector{1.0, 3.0, 1.0} : std::vector{3.0, 1.0, 1.0}));
    CHECK_FALSE(recovers.report(i % 3 == 2 ? std::vector{1.0, 1.0, 1.0} : std::vector{3.0, 1.0, 1.0}));
  }
}

TEST_CASE("a worker that waits longer than its iteration, or reports more often than others, divides by nothing") {
  World world{2};
  CHECK_FALSE(world.report({-1.0, 0.2}));
  CHECK_FALSE(world.report({-1.0, 0.2}));
  CHECK(world.report({-1.0, 0.2})->own_s == doctest::Approx{0.2});
  StragglerWatch watch{WorldSize{2}};
  Report report;
  report.time_this_iter_s = 1;
  for (; report.training_iteration < 1000; ++report.training_iteration) CHECK_FALSE(watch.note(report));
  report.rank = Rank{1};
  report.time_this_iter_s = 9;
  for (report.training_iteration = 0; report.training_iteration < 992; ++report.training_iteration)
    CHECK_FALSE(watch.note(report));
}
