// SPDX-License-Identifier: Apache-2.0
// What every model of `Collective` must refuse, written once, for worlds as in collective_conformance.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::testing {

/// What the error thrown by `call` says, with its code in front; "nothing" when there is none.
template <class Call>
auto refusal(Call const& call) -> std::string {
  try {
    call();
  } catch (raytrain::Error const& error) {
    return std::string{to_string(error.code())} + ": " + error.what();
  }
  return "nothing";
}

template <class T = float>
auto all_reduce(std::size_t size, ReduceOp op) {
  return [=](Collective& collective) {
    std::vector<T> values(size);
    collective.all_reduce(std::span<T>{values}, op);
  };
}

inline auto broadcast(std::size_t size, Rank root) {
  return [=](Collective& collective) {
    std::vector<float> values(size);
    collective.broadcast(std::span<float>{values}, root);
  };
}

inline auto all_gather(std::size_t size) {
  return [=](Collective& collective) {
    std::vector<float> const mine(size);
    std::vector<float> all(size * collective.size().value);
    collective.all_gather(std::span<float const>{mine}, std::span<float>{all});
  };
}

inline auto reduce_scatter(std::size_t size, ReduceOp op) {
  return [=](Collective& collective) {
    std::vector<float> mine(size);
    std::vector<float> const all(size * collective.size().value);
    collective.reduce_scatter(std::span<float const>{all}, std::span<float>{mine}, op);
  };
}

inline auto reduce(std::size_t size, ReduceOp op, Rank root) {
  return [=](Collective& collective) {
    std::vector<float> values(size);
    collective.reduce(std::span<float>{values}, op, root);
  };
}

inline auto gather(std::size_t size, Rank root) {
  return [=](Collective& collective) {
    std::vector<float> const mine(size);
    std::vector<float> all(size * collective.size().value);
    collective.gather(std::span<float const>{mine}, std::span<float>{all}, root);
  };
}

inline auto scatter(std::size_t size, Rank root) {
  return [=](Collective& collective) {
    std::vector<float> mine(size);
    std::vector<float> const all(size * collective.size().value);
    collective.scatter(std::span<float const>{all}, std::span<float>{mine}, root);
  };
}

inline auto all_gatherv(std::vector<std::size_t> const& counts) {
  return [=](Collective& collective) {
    // Of its own, so that it is gone as soon as the call returns.
    auto const own_counts = counts;
    std::vector<float> const mine(counts[collective.rank().value]);
    std::vector<float> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    collective.all_gatherv(std::span<float const>{mine}, std::span<float>{all},
                           std::span<std::size_t const>{own_counts});
  };
}

inline auto barrier() {
  return [](Collective& collective) { collective.barrier(); };
}

/// Of 4 ranks, 2 and 3 call something else. What each rank is told, and then when it tries again.
template <class World, class Usual, class Odd>
auto told_by_rank(Usual const& usual, Odd const& odd) -> std::array<std::vector<std::string>, 2> {
  std::array<std::vector<std::string>, 2> told{std::vector<std::string>(4), std::vector<std::string>(4)};
  World::run({4}, [&](Collective& collective) {
    auto const rank = collective.rank().value;
    told[0][rank] = refusal([&] { rank < 2 ? usual(collective) : odd(collective); });
    told[1][rank] = refusal([&] { collective.barrier(); });
  });
  return told;
}

template <class World, class Usual, class Odd>
void check_mismatch(Usual const& usual, std::string const& usual_text, Odd const& odd, std::string const& odd_text) {
  auto const told = told_by_rank<World>(usual, odd);
  auto const sides = "rank 0 calls " + usual_text + ", but rank 2 calls " + odd_text;
  for (auto const rank : World::ranks_here({4})) {
    CAPTURE(rank);
    CHECK(told[0][rank] ==
          "rank_mismatch: collective call: " + sides +
              "; make every rank call the same operations in the same order, on arrays of one size and type");
    CHECK(told[1][rank] == "rank_mismatch: barrier() on rank " + std::to_string(rank) +
                               ": the group is unusable since " + sides + "; let the error end the training function");
  }
}

}  // namespace raytrain::testing

TEST_CASE_TEMPLATE_DEFINE("a collective tells all ranks of both sides, and works no more, when", World,
                          collective_mismatches) {
  using namespace raytrain;
  using namespace raytrain::testing;
  auto const sum = ReduceOp::sum;
  if (!World::has({4})) return;

  SUBCASE("operations differ") {
    check_mismatch<World>(all_reduce(5, sum), "all_reduce(5 x float32, sum)", barrier(), "barrier()");
    check_mismatch<World>(barrier(), "barrier()", all_gather(5000), "all_gather(5000 x float32)");
    check_mismatch<World>(broadcast(5, {1}), "broadcast(5 x float32, root 1)", all_gather(5),
                          "all_gather(5 x float32)");
  }
  SUBCASE("sizes differ") {
    check_mismatch<World>(all_reduce(5, sum), "all_reduce(5 x float32, sum)", all_reduce(6, sum),
                          "all_reduce(6 x float32, sum)");
    check_mismatch<World>(all_reduce(9999, sum), "all_reduce(9999 x float32, sum)", all_reduce(0, sum),
                          "all_reduce(0 x float32, sum)");
    check_mismatch<World>(broadcast(5, {1}), "broadcast(5 x float32, root 1)", broadcast(5000, {1}),
                          "broadcast(5000 x float32, root 1)");
    check_mismatch<World>(all_gather(5), "all_gather(5 x float32)", all_gather(4), "all_gather(4 x float32)");
    check_mismatch<World>(reduce_scatter(5, sum), "reduce_scatter(5 x float32, sum)", reduce_scatter(4, sum),
                          "reduce_scatter(4 x float32, sum)");
  }
  SUBCASE("types differ, even at one size in bytes") {
    check_mismatch<World>(all_reduce<float>(5, sum), "all_reduce(5 x float32, sum)", all_reduce<std::int32_t>(5, sum),
                          "all_reduce(5 x int32, sum)");
    check_mismatch<World>(all_reduce<std::uint8_t>(5000, sum), "all_reduce(5000 x uint8, sum)",
                          all_reduce<std::int8_t>(5000, sum), "all_reduce(5000 x int8, sum)");
  }
  SUBCASE("sizes, types or roots differ in an operation with a root") {
    check_mismatch<World>(reduce(5, sum, {1}), "reduce(5 x float32, sum, root 1)", reduce(6, sum, {1}),
                          "reduce(6 x float32, sum, root 1)");
    check_mismatch<World>(reduce(5, sum, {1}), "reduce(5 x float32, sum, root 1)", reduce(5, ReduceOp::max, {1}),
                          "reduce(5 x float32, max, root 1)");
    check_mismatch<World>(reduce(5000, sum, {0}), "reduce(5000 x float32, sum, root 0)", reduce(5000, sum, {3}),
                          "reduce(5000 x float32, sum, root 3)");
    check_mismatch<World>(gather(5, {0}), "gather(5 x float32, root 0)", gather(5, {2}), "gather(5 x float32, root 2)");
    check_mismatch<World>(gather(5000, {0}), "gather(5000 x float32, root 0)", gather(4, {0}),
                          "gather(4 x float32, root 0)");
    check_mismatch<World>(scatter(5, {3}), "scatter(5 x float32, root 3)", scatter(5, {0}),
                          "scatter(5 x float32, root 0)");
    check_mismatch<World>(scatter(5, {3}), "scatter(5 x float32, root 3)", scatter(5000, {3}),
                          "scatter(5000 x float32, root 3)");
    check_mismatch<World>(reduce(5, sum, {1}), "reduce(5 x float32, sum, root 1)", all_reduce(5, sum),
                          "all_reduce(5 x float32, sum)");
    check_mismatch<World>(gather(5, {1}), "gather(5 x float32, root 1)", scatter(5, {1}),
                          "scatter(5 x float32, root 1)");
  }
  SUBCASE("they expect different counts of a rank, even if these add up to the same") {
    check_mismatch<World>(all_gatherv({1, 2, 3, 4}), "all_gatherv(10 x float32) of which rank 1 sends 2",
                          all_gatherv({1, 3, 2, 4}), "all_gatherv(10 x float32) of which rank 1 sends 3");
    check_mismatch<World>(all_gatherv({100, 200, 0, 5000}), "all_gatherv(5300 x float32) of which rank 3 sends 5000",
                          all_gatherv({100, 200, 0, 1}), "all_gatherv(301 x float32) of which rank 3 sends 1");
    check_mismatch<World>(all_gatherv({1, 1, 1, 1}), "all_gatherv(4 x float32)", all_gather(1),
                          "all_gather(1 x float32)");
  }
  SUBCASE("types of one size differ in how they store a number") {
    check_mismatch<World>(all_reduce<Float16>(5, sum), "all_reduce(5 x float16, sum)", all_reduce<BFloat16>(5, sum),
                          "all_reduce(5 x bfloat16, sum)");
    check_mismatch<World>(all_reduce<std::uint16_t>(5000, sum), "all_reduce(5000 x uint16, sum)",
                          all_reduce<Float16>(5000, sum), "all_reduce(5000 x float16, sum)");
  }
  SUBCASE("ops differ") {
    check_mismatch<World>(all_reduce(5, ReduceOp::average), "all_reduce(5 x float32, average)", all_reduce(5, sum),
                          "all_reduce(5 x float32, sum)");
    check_mismatch<World>(all_reduce(5, ReduceOp::product), "all_reduce(5 x float32, product)", all_reduce(5, sum),
                          "all_reduce(5 x float32, sum)");
    check_mismatch<World>(reduce_scatter(5, ReduceOp::min), "reduce_scatter(5 x float32, min)",
                          reduce_scatter(5, ReduceOp::max), "reduce_scatter(5 x float32, max)");
  }
  SUBCASE("roots differ") {
    check_mismatch<World>(broadcast(5, {3}), "broadcast(5 x float32, root 3)", broadcast(5, {0}),
                          "broadcast(5 x float32, root 0)");
  }
}

TEST_CASE_TEMPLATE_DEFINE("a collective refuses an array that cannot be right, and can be used after it", World,
                          collective_invalid_calls) {
  using namespace raytrain;
  using namespace raytrain::testing;
  auto const sum = ReduceOp::sum;
  if (!World::has({2})) return;
  std::vector<std::map<std::string, std::string>> told(2);

  World::run({2}, [&](Collective& collective) {
    std::vector<float> memory(10);
    std::span<float> const values{memory};
    std::span<float> const null{static_cast<float*>(nullptr), 3};
    auto& by_case = told[collective.rank().value];
    by_case["null"] = refusal([&] { collective.all_reduce(null, sum); });
    by_case["null broadcast"] = refusal([&] { collective.broadcast(null, Rank{0}); });
    by_case["null mine"] = refusal([&] { collective.all_gather(std::span<float const>{null}, values.first(6)); });
    by_case["null all"] =
        refusal([&] { collective.reduce_scatter(std::span<float const>{null}, values.first(1), sum); });
    by_case["root"] = refusal([&] { collective.broadcast(values, Rank{2}); });
    by_case["gather size"] =
        refusal([&] { collective.all_gather(std::span<float const>{values.first(3)}, values.last(7)); });
    by_case["scatter size"] =
        refusal([&] { collective.reduce_scatter(std::span<float const>{values.first(5)}, values.last(3), sum); });
    by_case["gather overlap"] =
        refusal([&] { collective.all_gather(std::span<float const>{values.subspan(1, 3)}, values.first(6)); });
    by_case["scatter overlap"] =
        refusal([&] { collective.reduce_scatter(std::span<float const>{values.first(6)}, values.subspan(5, 3), sum); });
    // What a rank that is not root gives as `all` is not looked at, so only root can be told.
    auto const me = collective.rank();
    Rank const other{1 - me.value};
    by_case["null reduce"] = refusal([&] { collective.reduce(null, sum, Rank{0}); });
    by_case["reduce root"] = refusal([&] { collective.reduce(values, sum, Rank{2}); });
    by_case["null to gather"] =
        refusal([&] { collective.gather(std::span<float const>{null}, values.first(6), other); });
    by_case["null gathered"] = refusal([&] { collective.gather(std::span<float const>{values.first(3)}, null, me); });
    by_case["gather to a root"] =
        refusal([&] { collective.gather(std::span<float const>{values.first(3)}, values.last(6), Rank{7}); });
    by_case["gathered size"] =
        refusal([&] { collective.gather(std::span<float const>{values.first(3)}, values.last(7), me); });
    by_case["gathered overlap"] =
        refusal([&] { collective.gather(std::span<float const>{values.subspan(1, 3)}, values.first(6), me); });
    by_case["null to scatter"] =
        refusal([&] { collective.scatter(std::span<float const>{null}, values.first(1), me); });
    by_case["null scattered"] = refusal([&] { collective.scatter(std::span<float const>{values}, null, other); });
    by_case["scatter from a root"] =
        refusal([&] { collective.scatter(std::span<float const>{values.first(6)}, values.last(3), Rank{2}); });
    by_case["scattered size"] =
        refusal([&] { collective.scatter(std::span<float const>{values.first(5)}, values.last(3), me); });
    by_case["scattered overlap"] =
        refusal([&] { collective.scatter(std::span<float const>{values.first(6)}, values.subspan(5, 3), me); });
    auto const gatherv = [&](std::span<float> mine, std::span<float> all, std::vector<std::size_t> const& counts) {
      return refusal(
          [&] { collective.all_gatherv(std::span<float const>{mine}, all, std::span<std::size_t const>{counts}); });
    };
    by_case["null to gatherv"] = gatherv(null, values.first(6), {3, 3});
    by_case["null gathervd"] = gatherv(values.first(1), null, {1, 2});
    by_case["too few counts"] = gatherv(values.first(3), values.last(3), {3});
    by_case["no counts"] = refusal([&] {
      collective.all_gatherv(std::span<float const>{values.first(3)}, values.last(6),
                             std::span<std::size_t const>{static_cast<std::size_t*>(nullptr), 2});
    });
    by_case["other count"] = gatherv(values.first(2), values.last(5), {4, 1});
    by_case["other sum"] = gatherv(values.first(3), values.last(7), {3, 3});
    by_case["sum beyond numbers"] = gatherv(values.first(3), values.last(2), {3, ~std::size_t{0}});
    by_case["gatherv overlap"] = gatherv(values.subspan(1, 2), values.first(4), {2, 2});
    // Nothing overlaps with an array of nothing.
    CHECK(gatherv(me.value == 0 ? values.subspan(2, 0) : values.last(4), values.first(4), {0, 4}) == "nothing");
    collective.all_reduce(values, sum);
  });

  auto const here = World::ranks_here({2});
  auto const check_told = [&](std::uint32_t rank, std::string const& name, std::string const& text) {
    if (std::ranges::find(here, rank) == here.end()) return;
    CAPTURE(name);
    CHECK(told[rank][name] == "invalid_call: " + text);
  };
  check_told(1, "null reduce",
             "reduce(3 x float32, sum, root 0) on rank 1: values must point to 3 elements (got null)");
  check_told(1, "reduce root", "reduce(10 x float32, sum, root 2) on rank 1: root must be below 2 (got 2)");
  check_told(0, "null to gather", "gather(3 x float32, root 1) on rank 0: mine must point to 3 elements (got null)");
  check_told(1, "null gathered", "gather(3 x float32, root 1) on rank 1: all must point to 3 elements (got null)");
  check_told(0, "gather to a root", "gather(3 x float32, root 7) on rank 0: root must be below 2 (got 7)");
  check_told(1, "gathered size",
             "gather(3 x float32, root 1) on rank 1: all must have 2 x 3 elements (got 7); give it room for the part "
             "of every rank");
  check_told(0, "gathered overlap",
             "gather(3 x float32, root 0) on rank 0: mine must lie outside of all, or be its part number 0 (got "
             "another overlap)");
  check_told(1, "null to scatter", "scatter(1 x float32, root 1) on rank 1: all must point to 3 elements (got null)");
  check_told(1, "null scattered", "scatter(3 x float32, root 0) on rank 1: mine must point to 3 elements (got null)");
  check_told(0, "scatter from a root", "scatter(3 x float32, root 2) on rank 0: root must be below 2 (got 2)");
  check_told(0, "scattered size",
             "scatter(3 x float32, root 0) on rank 0: all must have 2 x 3 elements (got 5); give it room for the part "
             "of every rank");
  check_told(1, "scattered overlap",
             "scatter(3 x float32, root 1) on rank 1: mine must lie outside of all, or be its part number 1 (got "
             "another overlap)");
  check_told(0, "null to gatherv", "all_gatherv(6 x float32) on rank 0: mine must point to 3 elements (got null)");
  check_told(0, "null gathervd", "all_gatherv(3 x float32) on rank 0: all must point to 3 elements (got null)");
  check_told(1, "too few counts",
             "all_gatherv(3 x float32) on rank 1: counts must have 2 elements, one for each rank (got 1)");
  check_told(1, "no counts", "all_gatherv(6 x float32) on rank 1: counts must point to 2 elements (got null)");
  check_told(0, "other count", "all_gatherv(5 x float32) on rank 0: mine must have counts[0] = 4 elements (got 2)");
  check_told(1, "other sum",
             "all_gatherv(7 x float32) on rank 1: all must have as many elements as the counts add up to, 6 (got 7)");
  check_told(0, "sum beyond numbers",
             "all_gatherv(2 x float32) on rank 0: all must have as many elements as the counts add up to, "
             "18446744073709551615 (got 2)");
  check_told(1, "gatherv overlap",
             "all_gatherv(4 x float32) on rank 1: mine must lie outside of all, or be its part number 1 (got another "
             "overlap)");

  check_told(0, "null", "all_reduce(3 x float32, sum) on rank 0: values must point to 3 elements (got null)");
  check_told(1, "null broadcast",
             "broadcast(3 x float32, root 0) on rank 1: values must point to 3 elements (got null)");
  check_told(0, "null mine", "all_gather(3 x float32) on rank 0: mine must point to 3 elements (got null)");
  check_told(0, "null all", "reduce_scatter(1 x float32, sum) on rank 0: all must point to 3 elements (got null)");
  check_told(0, "root", "broadcast(10 x float32, root 2) on rank 0: root must be below 2 (got 2)");
  check_told(1, "gather size",
             "all_gather(3 x float32) on rank 1: all must have 2 x 3 elements (got 7); give it room for the "
             "part "
             "of every rank");
  check_told(1, "scatter size",
             "reduce_scatter(3 x float32, sum) on rank 1: all must have 2 x 3 elements (got 5); give it room "
             "for "
             "the part of every rank");
  check_told(1, "gather overlap",
             "all_gather(3 x float32) on rank 1: mine must lie outside of all, or be its part number 1 (got "
             "another overlap)");
  check_told(0, "scatter overlap",
             "reduce_scatter(3 x float32, sum) on rank 0: mine must lie outside of all, or be its part number 0 "
             "(got another overlap)");
}
