// SPDX-License-Identifier: Apache-2.0
// Random operations in worlds of random sizes for RAYTRAIN_SOAK_S seconds (180), some of which are aborted in between.
// By hand and by tests/run --long. Several processes run it, as shared_memory_test.cpp.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/local.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "local_world.hpp"
#include "shared_world.hpp"

namespace {

using Clock = std::chrono::steady_clock;

auto soak_time() -> std::chrono::duration<double> {
  auto const* const seconds = std::getenv("RAYTRAIN_SOAK_S");
  // Both worlds take half of it.
  return std::chrono::duration<double>{(seconds != nullptr ? std::stod(seconds) : 180) / 2};
}

/// What one rank does in one world: operations that follow from `seed`, until it is aborted.
struct Outcome {
  std::uint64_t operations = 0;
  std::uint64_t wrong = 0;
  bool stopped = false;
};

template <class C>
auto operate(C& collective, std::uint64_t seed, int count) -> Outcome {
  Outcome outcome;
  std::mt19937_64 random{seed};
  try {
    for (; outcome.operations < static_cast<std::uint64_t>(count); ++outcome.operations) {
      outcome.wrong += raytrain::testing::wrong_in_random_operation(collective, random, 100'000);
    }
  } catch (raytrain::Stopped const&) {
    outcome.stopped = true;
  }
  return outcome;
}

/// Calls `group.abort()` at some time, or not at all.
template <class Group>
auto aborts_later(Group& group, std::mt19937_64& random) -> std::jthread {
  auto const turns = random() % 3 == 0 ? random() % 2'000'000 : 0;
  return std::jthread{[&group, turns] {
    if (turns == 0) return;
    for (auto left = turns; left > 0; --left) std::atomic_signal_fence(std::memory_order_seq_cst);
    group.abort();
  }};
}

auto world_size(std::mt19937_64& random, std::uint32_t largest) -> raytrain::WorldSize {
  return {static_cast<std::uint32_t>(1 + random() % largest)};
}

}  // namespace

TEST_CASE("threads, soaked") {
  if (Siblings::mine().rank() != raytrain::Rank{0}) return;
  std::mt19937_64 random{raytrain::testing::random_seed()};
  std::uint64_t worlds = 0;
  std::uint64_t operations = 0;
  for (auto const end = Clock::now() + soak_time(); Clock::now() < end; ++worlds) {
    auto const group = std::make_shared<raytrain::LocalGroup>(world_size(random, worlds % 50 == 0 ? 64 : 7));
    std::vector<Outcome> outcomes(group->size().value);
    auto const seed = random();
    auto const aborting = aborts_later(*group, random);
    for (auto const& thrown : LocalWorld::outcomes(
             group, [&](auto& collective) { outcomes[collective.rank().value] = operate(collective, seed, 100); })) {
      REQUIRE(thrown == nullptr);
    }
    for (auto const& outcome : outcomes) {
      REQUIRE(outcome.wrong == 0);
      REQUIRE(outcome.operations == outcomes[0].operations);
    }
    operations += outcomes[0].operations;
  }
  MESSAGE(worlds << " worlds, " << operations << " operations");
}

TEST_CASE("processes, soaked") {
  auto& siblings = Siblings::mine();
  std::mt19937_64 random{raytrain::testing::random_seed()};
  std::uint64_t worlds = 0;
  std::uint64_t operations = 0;
  auto const end = Clock::now() + soak_time() + soak_time();
  for (std::array<std::uint8_t, 1> go_on{1};; ++worlds) {
    go_on[0] = Clock::now() < end ? 1 : 0;
    siblings.broadcast(std::span<std::uint8_t>{go_on}, raytrain::Rank{0});
    if (go_on[0] == 0) break;
    auto const size = world_size(random, siblings.size().value);
    auto const group = shared_group(size, {.timeout = std::chrono::seconds{60}, .warn_after = {}});
    auto const seed = random();
    auto const rank = siblings.rank();
    std::vector<std::uint64_t> done(siblings.size().value);
    Outcome outcome;
    {
      auto mine = random;  // the same numbers on all ranks
      random.discard(10);
      auto const aborting = rank == raytrain::Rank{0} ? aborts_later(*group, mine) : std::jthread{};
      if (rank.value < size.value) {
        raytrain::SharedMemoryCollective collective{group, rank};
        outcome = operate(collective, seed, 100);
      }
    }
    REQUIRE(outcome.wrong == 0);
    std::array<std::uint64_t, 1> const own{outcome.operations};
    siblings.all_gather(std::span<std::uint64_t const>{own}, std::span<std::uint64_t>{done});
    for (std::uint32_t other = 0; other < size.value; ++other) REQUIRE(done[other] == done[0]);
    operations += done[0];
  }
  MESSAGE(worlds << " worlds, " << operations << " operations");
}
