// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/local.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_duplicates.hpp>
#include <raytrain/testing/collective_refusals.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "local_world.hpp"

using raytrain::LocalCollective;
using raytrain::LocalGroup;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::WorldSize;
using raytrain::testing::random_seed;
using raytrain::testing::refusal;

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, LocalWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, LocalWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, LocalWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, LocalWorld);

namespace {

/// Lets the other threads come to another point each time.
void pass_time(std::mt19937_64& random) {
  for (auto left = random() % 3 == 0 ? 0 : random() % 3000; left > 0; --left)
    std::atomic_signal_fence(std::memory_order_seq_cst);
  for (auto left = random() % 4; left > 0; --left) std::this_thread::yield();
}

auto text_of(std::exception_ptr const& thrown) -> std::string {
  if (!thrown) return "nothing";
  try {
    std::rethrow_exception(thrown);
  } catch (raytrain::Stopped const&) {
    return "Stopped";
  } catch (raytrain::Error const& error) {
    return error.what();
  }
}

/// An operation on memory of its own, which is gone when it ends, however it ends.
void reduce_some(LocalCollective& collective, std::size_t size) {
  std::vector<float> values(size, 1.0F);
  collective.all_reduce(std::span<float>{values}, ReduceOp::sum);
}

}  // namespace

TEST_CASE("a group of no worker, or of more than there may be, is refused") {
  CHECK(refusal([] { LocalGroup{WorldSize{0}}; }) == "invalid_call: LocalGroup: needs from 1 to 4096 workers (got 0)");
  CHECK(refusal([] { LocalGroup{WorldSize{4097}}; }) ==
        "invalid_call: LocalGroup: needs from 1 to 4096 workers (got 4097)");
}

TEST_CASE("a collective without a group, or with a rank that its group does not have, is refused") {
  CHECK(refusal([] { LocalCollective(nullptr, Rank{0}); }) ==
        "invalid_call: LocalCollective: needs a group (got null)");
  CHECK(refusal([] { LocalCollective(std::make_shared<LocalGroup>(WorldSize{2}), Rank{2}); }) ==
        "invalid_call: LocalCollective: rank must be below 2 (got 2)");
}

TEST_CASE("ranks that expect different counts of the last of 600 ranks are told which, though slots show 256 each") {
  constexpr std::uint32_t crowd = 600;
  auto const group = std::make_shared<LocalGroup>(WorldSize{crowd});
  std::vector<std::string> told(crowd);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < crowd; ++rank) {
      threads.emplace_back([&, rank] {
        LocalCollective collective{group, Rank{rank}};
        std::vector<std::size_t> counts(crowd);
        counts[crowd - 1] = rank < 300 ? 1 : 2;
        told[rank] = refusal([&] { raytrain::testing::all_gatherv(counts)(collective); });
      });
    }
  }
  std::string const expected =
      "rank_mismatch: collective call: rank 0 calls all_gatherv(1 x float32) of which rank 599 sends 1, but rank 300 "
      "calls all_gatherv(2 x float32) of which rank 599 sends 2; make every rank call the same operations in the same "
      "order, on arrays of one size and type";
  CHECK(std::ranges::count(told, expected) == crowd);
}

TEST_CASE("ranks whose counts differ are told so also where another rank performs a part of another call") {
  raytrain::WaitLimits limits;
  limits.timeout = std::chrono::seconds{5};
  auto const group = std::make_shared<LocalGroup>(WorldSize{3}, limits);
  std::vector<std::string> told(3);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        LocalCollective collective{group, Rank{rank}};
        told[rank] = refusal([&] {
          if (rank < 2) return raytrain::testing::all_gatherv({1, 2 + rank, 3 - rank})(collective);
          // As an array on a device is reduced.
          raytrain::detail::Call const reduction{.operation = raytrain::detail::Operation::all_reduce, .count = 10};
          collective.start({.call = {.operation = raytrain::detail::Operation::barrier}, .of = &reduction}).wait();
        });
      });
    }
  }
  std::string const expected =
      "rank_mismatch: collective call: rank 0 calls all_gatherv(6 x float32) with counts of its own, but rank 1 calls "
      "all_gatherv(6 x float32) with counts of its own; make every rank call the same operations in the same order, on "
      "arrays of one size and type";
  CHECK(std::ranges::count(told, expected) == 3);
}

TEST_CASE("whoever waits for a worker that ends, or calls later, is told so, whenever that worker ends") {
  std::mt19937_64 random{random_seed()};
  for (int run = 0; run < 300; ++run) {
    auto const group = std::make_shared<LocalGroup>(WorldSize{3});
    auto const seed = random();
    auto const thrown = LocalWorld::outcomes(group, [&](LocalCollective& collective) {
      std::mt19937_64 mine{seed + collective.rank().value};
      reduce_some(collective, 10);
      pass_time(mine);
      if (collective.rank() == Rank{1}) return;
      auto const first = refusal([&] { reduce_some(collective, 1000); });
      CHECK(first == refusal([&] { reduce_some(collective, 1000); }));
      reduce_some(collective, 1000);
    });
    REQUIRE(text_of(thrown[1]) == "nothing");
    for (std::string const rank : {"0", "2"}) {
      // Never the other one of these two, though it may have ended by then as well.
      auto const text = text_of(thrown[std::stoul(rank)]);
      CHECK(text ==
            "collective call: rank 1 has ended while rank " + rank +
                " waits in all_reduce(1000 x float32, sum); make every rank call the same operations, as often");
    }
  }
}

TEST_CASE("workers that end after their last common operation disturb nobody who has still to wake from it") {
  std::mt19937_64 random{random_seed()};
  for (int run = 0; run < 300; ++run) {
    auto const size = random() % 2 == 0 ? 10U : 1000U;
    auto const group = std::make_shared<LocalGroup>(WorldSize{4});
    for (auto const& thrown : LocalWorld::outcomes(group, [&](auto& collective) { reduce_some(collective, size); })) {
      REQUIRE(text_of(thrown) == "nothing");
    }
  }
}

TEST_CASE("an abort stops all ranks at the same operation, and none while another works on its memory") {
  std::mt19937_64 random{random_seed()};
  for (int run = 0; run < 300; ++run) {
    auto const size = random() % 2 == 0 ? 20U : 3000U;
    auto const ranks = static_cast<std::uint32_t>(2 + random() % 2);
    auto const group = std::make_shared<LocalGroup>(WorldSize{ranks});
    std::vector<std::size_t> done(ranks);
    std::latch all_run{ranks + 1};
    std::jthread aborts{[&, seed = random()] {
      std::mt19937_64 mine{seed};
      all_run.arrive_and_wait();
      pass_time(mine);
      group->abort();
      group->abort();
    }};
    auto const thrown = LocalWorld::outcomes(group, [&](LocalCollective& collective) {
      all_run.arrive_and_wait();
      for (;; ++done[collective.rank().value]) reduce_some(collective, size);
    });
    for (auto const& each : thrown) REQUIRE(text_of(each) == "Stopped");
    for (auto const count : done) REQUIRE(count == done[0]);
  }
}

TEST_CASE("after an abort every call throws Stopped, even for a worker that could be told of an earlier error") {
  for (std::uint32_t const ranks : {1U, 2U, 64U}) {
    CAPTURE(ranks);
    auto const group = std::make_shared<LocalGroup>(WorldSize{ranks});
    group->leave(Rank{0});
    group->abort();
    for (auto const& thrown : LocalWorld::outcomes(group, [](LocalCollective& collective) {
           CHECK_THROWS_AS(collective.barrier(), raytrain::Stopped);
           CHECK_THROWS_AS(reduce_some(collective, 10), raytrain::Stopped);
           reduce_some(collective, 1000);
         })) {
      REQUIRE(text_of(thrown) == "Stopped");
    }
  }
}

TEST_CASE("an abort wakes 63 workers that wait for the last one") {
  auto const group = std::make_shared<LocalGroup>(WorldSize{64});
  std::latch others_run{63};
  auto const thrown = LocalWorld::outcomes(group, [&](LocalCollective& collective) {
    if (collective.rank() == Rank{63}) {
      others_run.wait();
      group->abort();
    } else {
      others_run.count_down();
      collective.barrier();
    }
  });
  for (std::size_t rank = 0; rank < 63; ++rank) REQUIRE(text_of(thrown[rank]) == "Stopped");
}

TEST_CASE("all ranks agree to stop after the same operation, whenever the request comes") {
  std::mt19937_64 random{random_seed()};
  for (int run = 0; run < 300; ++run) {
    auto const size = random() % 2 == 0 ? 10U : 1000U;
    auto const ranks = static_cast<std::uint32_t>(1 + random() % 4);
    auto const group = std::make_shared<LocalGroup>(WorldSize{ranks});
    std::vector<std::size_t> done(ranks);
    std::latch all_run{ranks + 1};
    std::jthread requests{[&, seed = random()] {
      std::mt19937_64 mine{seed};
      all_run.arrive_and_wait();
      pass_time(mine);
      group->request_stop();
    }};
    auto const thrown = LocalWorld::outcomes(group, [&](LocalCollective& collective) {
      all_run.arrive_and_wait();
      do {
        reduce_some(collective, size);
        ++done[collective.rank().value];
      } while (!collective.stop_agreed());
    });
    for (auto const& each : thrown) REQUIRE(text_of(each) == "nothing");
    for (auto const count : done) REQUIRE(count == done[0]);
  }
}

TEST_CASE("a stop request is agreed on in the next operation and not before, and stays agreed") {
  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  std::latch both_met{2};
  std::latch requested{1};
  std::vector<std::vector<bool>> agreed(2);
  LocalWorld::outcomes(group, [&](LocalCollective& collective) {
    auto& mine = agreed[collective.rank().value];
    collective.barrier();
    both_met.arrive_and_wait();
    if (collective.rank() == Rank{0}) {
      group->request_stop();
      requested.count_down();
    }
    requested.wait();
    mine.push_back(collective.stop_agreed());
    collective.barrier();
    mine.push_back(collective.stop_agreed());
    reduce_some(collective, 1000);
    mine.push_back(collective.stop_agreed());
  });
  CHECK(agreed == std::vector<std::vector<bool>>(2, {false, true, true}));
}

TEST_CASE("a single worker sees a stop request at once") {
  auto const group = std::make_shared<LocalGroup>(WorldSize{1});
  LocalCollective const collective{group, Rank{0}};
  CHECK_FALSE(collective.stop_agreed());
  group->request_stop();
  CHECK(collective.stop_agreed());
}

TEST_CASE("ranks that wait longer than the limit give up together, and the one that comes late is told who did") {
  auto const group =
      std::make_shared<LocalGroup>(WorldSize{3}, raytrain::WaitLimits{.timeout = std::chrono::milliseconds{30}});
  std::latch others_gave_up{2};
  auto const thrown = LocalWorld::outcomes(group, [&](LocalCollective& collective) {
    if (collective.rank() == Rank{1}) {
      others_gave_up.wait();
      reduce_some(collective, 1000);
    }
    auto const told = refusal([&] { reduce_some(collective, 1000); });
    CHECK(told == refusal([&] { reduce_some(collective, 1000); }));
    others_gave_up.count_down();
    reduce_some(collective, 1000);
  });
  for (std::string const rank : {"0", "2"}) {
    CHECK(text_of(thrown[std::stoul(rank)]) ==
          "all_reduce(1000 x float32, sum) on rank " + rank +
              ": rank 1 has not come within 30 ms; look at what is done there instead, or "
              "allow more time: RunConfig::collective_timeout, WaitLimits::timeout");
  }
  auto const late = text_of(thrown[1]);
  CHECK(late.find("all_reduce(1000 x float32, sum) on rank 1: the group is unusable since rank ") == 0);
  CHECK(late.find(" waited in vain for 30 ms; ") != std::string::npos);
}

TEST_CASE("limits that no wait can keep are refused") {
  using std::chrono::milliseconds;
  CHECK(refusal([] { LocalGroup(WorldSize{1}, {.timeout = milliseconds{0}}); }) ==
        "invalid_call: LocalGroup: the timeout must be above 0 (got 0 ms)");
  CHECK(refusal([] { LocalGroup(WorldSize{1}, {.warn_after = milliseconds{-1}}); }) ==
        "invalid_call: LocalGroup: warn_after must not be below 0 (got -1 ms)");
}

TEST_CASE("an allocated array is zero, reaches from a cache line to its end, and outlives its collective") {
  for (std::size_t const size : {0U, 1U, 1000U, 3'000'001U}) {
    CAPTURE(size);
    std::optional<LocalCollective> collective{std::in_place, std::make_shared<LocalGroup>(WorldSize{1}), Rank{0}};
    auto array = collective->allocate<float>(size);
    collective.reset();
    CHECK(array.size() == size);
    CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 64 == 0);
    CHECK(std::count(array.begin(), array.end(), 0.0F) == static_cast<std::ptrdiff_t>(size));
    std::fill(array.begin(), array.end(), 1.0F);
    auto const moved = std::move(array);
    CHECK(moved.span().size() == size);
    CHECK(array.size() == 0);
  }
  LocalCollective collective{std::make_shared<LocalGroup>(WorldSize{1}), Rank{0}};
  CHECK_THROWS_AS((void)collective.allocate<double>(~std::size_t{0} / 4), std::bad_alloc);
  CHECK_THROWS_AS((void)collective.allocate<float>(~std::size_t{0} / 4), std::bad_alloc);
}

TEST_CASE("what a group is told, its duplicates are told as well, also those of duplicates and of later") {
  using Told = std::vector<std::string>;
  auto const told_of = [](auto const& tell) {
    auto const group = std::make_shared<LocalGroup>(WorldSize{2});
    Told told(2);
    LocalWorld::outcomes(group, [&](LocalCollective& collective) {
      auto const duplicate = collective.duplicate()->duplicate();
      collective.barrier();
      auto const is_told = collective.rank() == Rank{1};
      told[collective.rank().value] = raytrain::testing::refusal([&] {
        if (!is_told) return tell(*group);
        try {
          duplicate->barrier();
        } catch (raytrain::Stopped const&) {
          throw raytrain::Error{raytrain::Errc::worker_failed, "Stopped", {}};
        }
      });
    });
    return told[1];
  };
  CHECK(told_of([](LocalGroup& group) { group.abort(); }) == "worker_failed: Stopped: ");
  CHECK(
      told_of([](LocalGroup& group) { group.leave(Rank{0}); }) ==
      "rank_mismatch: collective call: rank 0 has ended while rank 1 waits in barrier(); make every rank call the same "
      "operations, as often");

  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  LocalWorld::outcomes(group, [&](LocalCollective& collective) {
    auto const early = collective.duplicate();
    collective.barrier();
    group->request_stop();
    early->barrier();
    CHECK(early->stop_agreed());
    auto const late = early->duplicate();
    late->barrier();
    CHECK(late->stop_agreed());
  });
}

TEST_CASE("a group keeps no duplicate but the last one, once its collectives are gone") {
  auto const held = std::make_shared<int>();  // by each group in its limits
  raytrain::WaitLimits limits;
  limits.on_warning = [held](auto const&) {};
  auto const group = std::make_shared<LocalGroup>(WorldSize{1}, std::move(limits));
  LocalCollective collective{group, Rank{0}};
  (void)collective.duplicate();
  auto const with_one = held.use_count();
  for (int i = 0; i < 10; ++i) (void)collective.duplicate();
  CHECK(held.use_count() == with_one);
}
