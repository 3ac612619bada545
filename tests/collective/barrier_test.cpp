// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/detail/barrier.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/identifiers.hpp>

using raytrain::Rank;
using raytrain::WaitLimits;
using raytrain::WorldSize;
using raytrain::detail::Barrier;
using raytrain::detail::BarrierState;
using raytrain::detail::Waiting;
using Outcome = raytrain::detail::Barrier::Outcome;

namespace {

class State {
 public:
  explicit State(std::uint32_t members, bool can_be_killed = false)
      : memory_{raytrain::detail::allocate_pages(BarrierState::bytes_for({members}))},
        state_{BarrierState::construct(memory_.get(), {.count = {members}, .can_be_killed = can_be_killed})} {}

  auto operator->() noexcept -> BarrierState* { return &state_; }
  auto member(std::uint32_t rank, WaitLimits limits = {}) -> Barrier {
    return {state_, {.rank = {rank}, .limits = limits}};
  }

 private:
  std::shared_ptr<void> memory_;
  BarrierState& state_;
};

}  // namespace

TEST_CASE("a member that joins where another one was before goes on with the next barrier") {
  State state{2};
  std::atomic<std::uint32_t> completed{0};
  auto const enter_in_turn = [&](std::uint32_t rank) {
    for (int turn = 0; turn < 5; ++turn) {
      auto member = state.member(rank);
      for (int i = 0; i <= turn; ++i) completed += member.enter({}) == Outcome::completed ? 1U : 0U;
    }
  };
  std::jthread other{[&] { enter_in_turn(1); }};
  enter_in_turn(0);
  other.join();
  CHECK(completed == 2 * 15);
}

TEST_CASE("what closes a barrier is told in the order abort, break-up, time-out, end") {
  State state{2};
  auto member = state.member(0);
  state->end(Rank{1});
  state->end(Rank{0});
  CHECK(member.enter({}) == Outcome::ended);
  CHECK(state->first_ended() == Rank{1});
  state->time_out(Rank{1});
  state->time_out(Rank{0});
  CHECK(member.enter({}) == Outcome::timed_out);
  CHECK(state->first_timed_out() == Rank{1});
  state->break_up();
  CHECK(member.enter({}) == Outcome::broken);
  state->abort();
  CHECK(member.enter({}) == Outcome::aborted);
}

TEST_CASE("threads that work on each other's memory wait for each other in spite of an abort") {
  State state{2};
  auto member = state.member(0);
  std::uint32_t finished = 0;
  state->abort();
  std::jthread second{[&] {
    auto other = state.member(1);
    finished = 1;
    CHECK(other.finish({}) == Outcome::completed);
  }};
  CHECK(member.finish({}) == Outcome::completed);
  CHECK(finished == 1);
}

TEST_CASE("a process that works on another's memory does not wait for it after an abort, since it may be gone") {
  State state{2, true};
  auto member = state.member(0);
  state->abort();
  CHECK(member.finish({}) == Outcome::aborted);
}

TEST_CASE("a member that looks late goes by what was decided of a closed barrier, not by who has come since") {
  State state{3};
  std::latch warns{1};
  std::latch may_look{1};
  auto late = Outcome::completed;
  std::jthread first{[&] {
    auto member = state.member(0, {.warn_after = std::chrono::milliseconds{1}, .on_warning = [&](auto&) {
                                     warns.count_down();
                                     may_look.wait();
                                   }});
    late = member.enter({});
  }};
  warns.wait();
  auto member = state.member(1, {.timeout = std::chrono::milliseconds{1}});
  CHECK(member.enter({}) == Outcome::timed_out);
  // Does not ask whether the barrier is closed.
  CHECK(state.member(2).finish({}) == Outcome::completed);
  may_look.count_down();
  first.join();
  CHECK(late == Outcome::timed_out);
}

TEST_CASE("a request to stop that only some members knew of when they came is known to all that it lets go") {
  for (std::uint32_t const first : {0U, 1U}) {
    CAPTURE(first);
    State state{2};
    std::latch waits{1};
    bool early_knows = false;
    std::jthread early{[&] {
      auto member = state.member(
          first, {.warn_after = std::chrono::milliseconds{1}, .on_warning = [&](auto&) { waits.count_down(); }});
      CHECK(member.enter({}) == Outcome::completed);
      early_knows = member.stop_agreed();
    }};
    waits.wait();
    state->request_stop();
    auto late = state.member(1 - first);
    CHECK(late.enter({}) == Outcome::completed);
    early.join();
    CHECK(late.stop_agreed());
    CHECK(early_knows);
  }
}

TEST_CASE(
    "a request to stop stays agreed when the barrier is closed, and is not agreed by one that does not complete") {
  for (bool const agreed : {false, true}) {
    CAPTURE(agreed);
    State state{3};
    std::vector<Barrier> members;
    for (std::uint32_t rank = 0; rank < 3; ++rank) members.push_back(state.member(rank));
    auto const enter = [&](std::size_t number) {
      std::vector<std::jthread> threads;
      for (std::size_t rank = 0; rank < number; ++rank)
        threads.emplace_back([&, rank] { (void)members[rank].enter({}); });
      if (number < 3) state->end(Rank{2});
    };
    if (agreed) state->request_stop();
    enter(3);
    if (!agreed) state->request_stop();
    enter(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(members[rank].enter({}) == Outcome::ended);
      CHECK(members[rank].stop_agreed() == agreed);
    }
  }
}

TEST_CASE("a request to stop is not agreed by a barrier that one member never entered") {
  State state{3};
  state->request_stop();
  std::array<bool, 2> knows{true, true};
  std::vector<std::jthread> threads;
  for (std::uint32_t rank : {0U, 1U}) {
    threads.emplace_back([&, rank] {
      // Above it there is nobody who would speak in its place; it has seen who came by then.
      auto member = state.member(
          rank, {.warn_after = std::chrono::milliseconds{20}, .on_warning = [&](auto&) { state->end(Rank{2}); }});
      CHECK(member.enter({}) == Outcome::ended);
      knows[rank] = member.stop_agreed();
    });
  }
  threads.clear();
  CHECK(knows == std::array{false, false});
}

TEST_CASE("who waits too long warns once of those who are missing, and then gives up for everybody") {
  using std::chrono::milliseconds;
  State state{4};
  std::vector<std::string> warnings;
  std::jthread second{[&] {
    auto member =
        state.member(2, {.timeout = milliseconds{400}, .warn_after = milliseconds{50}, .on_warning = [](auto&) {
                           FAIL_CHECK("rank 1 waits as well, and is lower");
                         }});
    CHECK(member.enter({}) == Outcome::timed_out);
  }};
  auto member =
      state.member(1, {.timeout = milliseconds{300}, .warn_after = milliseconds{50}, .on_warning = [&](auto& text) {
                         warnings.push_back(text);
                       }});
  CHECK(member.enter({}) == Outcome::timed_out);
  CHECK(warnings == std::vector<std::string>{"rank 1 has waited 50 ms in barrier() for ranks 0 and 3"});
  CHECK(member.missing() == std::vector<std::uint32_t>{0, 3});
  CHECK(state->first_timed_out() == Rank{1});
  CHECK(state.member(0).enter({}) == Outcome::timed_out);
}

TEST_CASE("a member that looks at the clock only when both are due warns before it gives up") {
  State state{2};
  std::string warning;
  auto member = state.member(0, {.timeout = std::chrono::milliseconds{20},
                                 .warn_after = std::chrono::milliseconds{20},
                                 .on_warning = [&](auto& text) { warning = text; }});
  CHECK(member.enter({}) == Outcome::timed_out);
  CHECK(warning == "rank 0 has waited 20 ms in barrier() for rank 1");
}

TEST_CASE(
    "what a member shows next, after a barrier that did not complete, disturbs nobody who still reads the one before") {
  State state{2};
  auto slow = state.member(0);
  std::jthread other{[&] {
    auto member = state.member(1, {.timeout = std::chrono::milliseconds{20}});
    member.next_slot().bytes[0] = std::byte{1};
    CHECK(member.enter({}) == Outcome::completed);
    CHECK(member.enter({}) == Outcome::timed_out);
    member.next_slot().bytes[0] = std::byte{2};
    CHECK(member.enter({}) == Outcome::timed_out);
  }};
  CHECK(slow.enter({}) == Outcome::completed);
  other.join();
  CHECK(slow.slots()[1].bytes[0] == std::byte{1});
}

TEST_CASE("a member whose warning fails waits on, since the others count on it") {
  State state{2};
  std::latch warned{1};
  std::jthread other{[&] {
    auto member = state.member(1);
    warned.wait();
    CHECK(member.enter({}) == Outcome::completed);
  }};
  auto member = state.member(0, {.warn_after = std::chrono::milliseconds{1}, .on_warning = [&](auto&) {
                                   warned.count_down();
                                   throw std::runtime_error{"nobody can be told"};
                                 }});
  CHECK(member.enter({}) == Outcome::completed);
}

TEST_CASE("a limit of any size is compared with a wait as it is") {
  WaitLimits limits{.timeout = std::chrono::milliseconds::max(),
                    .warn_after = std::chrono::milliseconds::max(),
                    .on_warning = [](std::string const&) {}};
  Waiting const endless{limits};
  CHECK_FALSE(endless.is_too_long(std::chrono::hours{1}));
  CHECK_FALSE(endless.is_to_warn(std::chrono::hours{1}));
  CHECK(endless.time_left(std::chrono::hours{1}) > std::chrono::hours{1});
  limits.timeout = std::chrono::milliseconds{30};
  Waiting const short_one{limits};
  CHECK_FALSE(short_one.is_too_long(std::chrono::microseconds{29'999}));
  CHECK(short_one.is_too_long(std::chrono::milliseconds{30}));
}
