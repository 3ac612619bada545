// SPDX-License-Identifier: Apache-2.0
// What a duplicate of a `Collective` must do, written once, for worlds as in collective_conformance.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_refusals.hpp>

TEST_CASE_TEMPLATE_DEFINE("a duplicate of a collective", World, collective_duplicates) {
  using namespace raytrain;
  using namespace raytrain::testing;

  SUBCASE("has the same ranks, and operations that meet none of the other's") {
    for (auto const size : World::sizes()) {
      if (!World::has({size})) continue;
      World::run({size}, [&](Collective& collective) {
        auto const duplicate = collective.duplicate();
        CHECK(duplicate->rank() == collective.rank());
        CHECK(duplicate->size() == collective.size());
        std::vector<std::int64_t> here(1000, collective.rank().value);
        std::vector<std::int64_t> there(5000, 1);
        std::thread meanwhile{[&] {
          for (int i = 0; i < 20; ++i) duplicate->all_reduce(there, ReduceOp::sum);
        }};
        for (int i = 0; i < 20; ++i) collective.broadcast(here, Rank{0});
        meanwhile.join();
        CHECK(here[999] == 0);
        std::int64_t expected = 1;
        for (int i = 0; i < 20; ++i) expected *= size;
        CHECK(there[4999] == expected);
        auto const again = duplicate->duplicate();
        again->all_reduce(here, ReduceOp::max);
        collective.barrier();
      });
    }
  }
  SUBCASE("is refused to ranks that do not all make it, by an error on each") {
    if (!World::has({2})) return;
    std::map<std::uint32_t, std::string> told{{0, {}}, {1, {}}};
    World::run({2}, [&](Collective& collective) {
      auto const rank = collective.rank().value;
      told[rank] = refusal([&] {
        if (rank == 0) return (void)collective.duplicate();
        collective.barrier();
      });
    });
    for (auto const rank : World::ranks_here({2})) {
      CHECK(
          told[rank] ==
          "rank_mismatch: collective call: rank 0 calls duplicate(), but rank 1 calls barrier(); make every rank call "
          "the same operations in the same order, on arrays of one size and type");
    }
  }
}
