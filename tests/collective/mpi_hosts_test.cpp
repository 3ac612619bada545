// SPDX-License-Identifier: Apache-2.0
// What ranks are told that share memory with some of the others, and reach the rest by MPI.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "mpi_world.hpp"

namespace {

using namespace raytrain;
using namespace std::chrono_literals;
using Work = std::function<void(Collective&)>;

/// What a rank is told that calls `work`, and what it is warned of; without `work` it does not come.
struct Told {
  std::string error;
  std::vector<std::string> warnings;
};

/// 4 ranks, so many of them on the first host.
auto tell(std::uint32_t ranks_per_host, Work const& work) -> Told {
  Told told;
  std::shared_ptr<MpiGroup> group;
  MpiOptions options{.limits = {.timeout = 2s, .warn_after = 1500ms}};
  options.limits.on_warning = [&](std::string const& text) {
    if (group) told.warnings.push_back(text);
  };
  group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options,
                                     raytrain::detail::MpiPretence{.ranks_per_host = ranks_per_host});
  {
    MpiCollective collective{group};
    // Then the next operation is not likely to be compared with the other host's, which would meet before.
    for (int i = 0; i < 40; ++i) collective.barrier();
    raytrain::testing::all_reduce(1, ReduceOp::sum)(collective);
    try {
      if (work) work(collective);
    } catch (Error const& error) {
      told.error = error.what();
    } catch (Stopped const&) {
      told.error = "stopped";  // another one of its host was told
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return told;
}

/// Of `work`'s arrays; MPI may use them still when a call has failed.
auto gather(std::size_t size) -> Work {
  return [=](Collective& collective) {
    auto const& from = *new std::vector<float>(size);
    auto& all = *new std::vector<float>(size * collective.size().value);
    collective.all_gather(std::span{from}, std::span{all});
  };
}

auto reduce(std::size_t size) -> Work {
  return
      [=](Collective& collective) { collective.all_reduce(std::span{*new std::vector<float>(size)}, ReduceOp::sum); };
}

}  // namespace

TEST_CASE("whoever of which host does not come, every rank names it, and the call that was made") {
  auto const [me, size] = FirstRanks::job();
  if (size != WorldSize{4}) return;
  struct Wait {
    std::uint32_t ranks_per_host;
    std::uint32_t late;
    Work work;
    std::string call;
  };
  auto const all_gather = std::string{"all_gather(100 x float32)"};
  auto const all_reduce = std::string{"all_reduce(100 x float32, sum)"};
  for (auto const& [ranks_per_host, late, work, call] :
       {Wait{2, 0, gather(100), all_gather}, Wait{2, 1, reduce(100), all_reduce}, Wait{2, 3, gather(100), all_gather},
        Wait{3, 3, gather(100), all_gather}, Wait{3, 1, gather(100), all_gather}}) {
    CAPTURE(ranks_per_host);
    CAPTURE(late);
    auto const [error, warnings] = tell(ranks_per_host, me.value == late ? Work{} : work);
    if (me.value == late) continue;
    CAPTURE(error);
    auto const mine = "rank " + std::to_string(me.value);
    auto const others = "rank " + std::to_string(late);
    CHECK((error == "stopped" || error.starts_with(call + " on " + mine + ": " + others + " has not come within 2 s")));
    std::vector<std::string> expected;
    if (me.value == (late == 0 ? 1 : 0)) expected.push_back(mine + " has waited 1500 ms in " + call + " for " + others);
    CHECK(warnings == expected);
  }
}

TEST_CASE(
    "ranks of one host that call something else are told so by their names in the world, and by what they called") {
  auto const [me, size] = FirstRanks::job();
  if (size != WorldSize{4}) return;
  auto const [error, warnings] = tell(2, me == Rank{3} ? reduce(100) : gather(100));
  CAPTURE(error);
  if (me.value >= 2) {
    CHECK(error ==
          "collective call: rank 2 calls all_gather(100 x float32), but rank 3 calls all_reduce(100 x float32, sum); "
          "make every rank call the same operations in the same order, on arrays of one size and type");
  } else {
    // What the other host's ranks have found in their memory, these hear of within the time that they wait.
    CHECK((error == "stopped" || error.ends_with(", but rank 3 calls all_reduce(100 x float32, sum); make every rank "
                                                 "call the same operations in the same order, on arrays of one size "
                                                 "and type")));
  }
}

TEST_CASE("counts of all_gatherv that differ on one host are told there, also where they are those of another host") {
  auto const [me, size] = FirstRanks::job();
  if (size != WorldSize{4}) return;
  auto const [error, warnings] = tell(2, [me = me](Collective& collective) {
    std::vector<std::size_t> const counts =
        me == Rank{3} ? std::vector<std::size_t>{2, 1, 3, 4} : std::vector<std::size_t>{1, 2, 3, 4};
    auto const& from = *new std::vector<float>(counts[me.value]);
    auto& all = *new std::vector<float>(10);
    collective.all_gatherv(std::span{from}, std::span{all}, counts);
  });
  if (me.value >= 2) {
    CHECK(
        error.starts_with("collective call: rank 2 calls all_gatherv(10 x float32) with counts of its own, but rank 3 "
                          "calls all_gatherv(10 x float32) with counts of its own; make every rank"));
  }
}

TEST_CASE("a rank that waits in its host's memory and one that waits in MPI are told of their calls after a second") {
  auto const [me, size] = FirstRanks::job();
  if (size != WorldSize{4}) return;
  auto const [error, warnings] = tell(2, me == Rank{1} ? gather(100) : Work{[](Collective& each) { each.barrier(); }});
  CAPTURE(error);
  auto const names_both = error ==
                          "collective call: rank 0 calls barrier(), but rank 1 calls all_gather(100 x float32); "
                          "make every rank call the same operations in the same order, on arrays of one size "
                          "and type";
  if (me.value < 2) CHECK((names_both || error == "stopped"));
}
