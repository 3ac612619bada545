// SPDX-License-Identifier: Apache-2.0
// What every model of `Collective` must do, written once. A test program names its worlds:
//   TEST_CASE_TEMPLATE_INVOKE(collective_conformance, LocalWorld);
// A world has
//   run(size, work)  calls work(collective) as each of its ranks that this process has, and rethrows;
//   sizes()          the numbers of ranks to try;
//   crowd()          a number of ranks that is more than there are cores, if it can be;
//   has(size)        whether it can have that many;
//   ranks_here(size) those of so many that this process has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/checked_operations.hpp>
#include <raytrain/testing/random_seed.hpp>

namespace raytrain::testing {

/// Runs `work(collective)`, which counts wrong elements, as every rank of a world, and gives them by rank; 0 for ranks
/// of other processes, which check their own.
template <class World, class Work>
auto wrong_by_rank(WorldSize size, Work const& work) -> std::vector<std::size_t> {
  std::vector<std::size_t> wrong(size.value);
  World::run(size, [&](Collective& collective) { wrong[collective.rank().value] = work(collective); });
  return wrong;
}

/// Checks that `work(collective)` counts no wrong element as any rank of a world of any size.
template <class World, class Work>
void check_none_wrong(Work const& work) {
  for (auto const ranks : World::sizes()) {
    CAPTURE(ranks);
    CHECK(wrong_by_rank<World>({ranks}, work) == std::vector<std::size_t>(ranks));
  }
}

}  // namespace raytrain::testing

TEST_CASE_TEMPLATE_DEFINE("a collective", World, collective_conformance) {
  using namespace raytrain;
  using namespace raytrain::testing;

  SUBCASE("reduces every type with every op to the bits of a serial loop in rank order") {
    check_none_wrong<World>(wrong_in_all_reduces);
  }
  SUBCASE("gives every rank its part of the reduction of every type with every op, in place and apart") {
    check_none_wrong<World>(wrong_in_reduce_scatters);
  }
  SUBCASE("hands every root's values of every type to all") { check_none_wrong<World>(wrong_in_broadcasts); }
  SUBCASE("gathers every rank's values of every type in rank order, in place and apart") {
    check_none_wrong<World>(wrong_in_all_gathers);
  }
  SUBCASE("reduces on every root and changes nothing elsewhere, whatever the type and op") {
    check_none_wrong<World>(wrong_in_reduces);
  }
  SUBCASE("gathers on every root and scatters from it, in place and apart, with any array elsewhere") {
    check_none_wrong<World>(wrong_in_gathers_and_scatters);
  }
  SUBCASE("gathers arrays of different lengths in rank order, some of them empty") {
    check_none_wrong<World>(wrong_in_all_gathervs);
  }
  SUBCASE("makes a NaN of any rank the result, and gives a zero the sign that IEEE arithmetic gives it") {
    check_none_wrong<World>(wrong_nans_and_zeros);
  }
  SUBCASE("adds values of 16 bits in float and rounds once, so that none is lost and no sum on the way is too large") {
    check_none_wrong<World>(wrong_in_sums_of_16_bits);
  }
  SUBCASE("does not mix up operations that follow each other at once, whatever their sizes and types") {
    auto const seed = random_seed();
    check_none_wrong<World>([&](Collective& collective) {
      std::mt19937_64 random{seed};
      std::size_t wrong = 0;
      for (int i = 0; i < 300; ++i) wrong += wrong_in_random_operation(collective, random, 30'000);
      return wrong;
    });
  }
  SUBCASE("gives the same bits to all ranks on every run, though rounding depends on the order of a sum") {
    constexpr std::size_t size = 9'001;
    std::map<std::uint32_t, std::vector<std::vector<float>>> first_run;
    for (auto const ranks : World::sizes()) first_run[ranks].resize(ranks);
    for (int run = 0; run < 5; ++run) {
      check_none_wrong<World>([&](Collective& collective) {
        auto const rank = collective.rank();
        auto const ranks = collective.size().value;
        auto array = filled<float>(size, rank, [&](std::size_t i) { return value_at<float>(7, rank.value, i); });
        collective.all_reduce(array.span(), ReduceOp::sum);
        std::vector<float> all(size * ranks);
        collective.all_gather(array.span(), std::span<float>{all});
        auto& first = first_run.at(ranks)[rank.value];
        if (first.empty()) first.assign(array.span().begin(), array.span().end());
        return wrong_bits<float>(all, [&](std::size_t i) { return first[i % size]; });
      });
    }
  }
  SUBCASE("works with many more workers than cores") {
    auto const seed = random_seed();
    auto const ranks = World::crowd();
    CHECK(wrong_by_rank<World>({ranks}, [&](Collective& collective) {
            std::mt19937_64 random{seed};
            std::size_t wrong = 0;
            for (int i = 0; i < 30; ++i) wrong += wrong_in_random_operation(collective, random, 1'000);
            return wrong;
          }) == std::vector<std::size_t>(ranks));
  }
}
