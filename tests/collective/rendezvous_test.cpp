// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/detail/rendezvous.hpp>

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

#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/pages.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/rank.hpp>

using raytrain::Rank;
using raytrain::WaitLimits;
using raytrain::WorldSize;
using raytrain::detail::MeetingPlace;
using raytrain::detail::Rendezvous;
using Outcome = raytrain::detail::Rendezvous::Outcome;

namespace {

class Place {
 public:
  explicit Place(std::uint32_t members, bool can_be_killed = false)
      : memory_{raytrain::detail::allocate_pages(MeetingPlace::bytes_for({members}))},
        place_{MeetingPlace::construct(memory_.get(), {members}, false, can_be_killed)} {}

  auto operator->() noexcept -> MeetingPlace* { return &place_; }
  auto member(std::uint32_t rank, WaitLimits limits = {}) -> Rendezvous { return {place_, Rank{rank}, limits}; }

 private:
  std::shared_ptr<void> memory_;
  MeetingPlace& place_;
};

}  // namespace

TEST_CASE("a member that joins where another one was before goes on with the next meeting") {
  Place place{2};
  std::atomic<std::uint32_t> met{0};
  auto const meet_in_turn = [&](std::uint32_t rank) {
    for (int turn = 0; turn < 5; ++turn) {
      auto member = place.member(rank);
      for (int meeting = 0; meeting <= turn; ++meeting) met += member.meet({}) == Outcome::met ? 1U : 0U;
    }
  };
  std::jthread other{[&] { meet_in_turn(1); }};
  meet_in_turn(0);
  other.join();
  CHECK(met == 2 * 15);
}

TEST_CASE("what ends meetings is told in the order abort, break-up, time-out, end") {
  Place place{2};
  auto member = place.member(0);
  place->end(Rank{1});
  place->end(Rank{0});
  CHECK(member.meet({}) == Outcome::ended);
  CHECK(place->first_ended() == Rank{1});
  place->time_out(Rank{1});
  place->time_out(Rank{0});
  CHECK(member.meet({}) == Outcome::timed_out);
  CHECK(place->first_timed_out() == Rank{1});
  place->break_up();
  CHECK(member.meet({}) == Outcome::broken);
  place->abort();
  CHECK(member.meet({}) == Outcome::aborted);
}

TEST_CASE("threads that work on each other's memory wait for each other in spite of an abort") {
  Place place{2};
  auto member = place.member(0);
  std::uint32_t finished = 0;
  place->abort();
  std::jthread second{[&] {
    auto other = place.member(1);
    finished = 1;
    CHECK(other.finish({}) == Outcome::met);
  }};
  CHECK(member.finish({}) == Outcome::met);
  CHECK(finished == 1);
}

TEST_CASE("a process that works on another's memory does not wait for it after an abort, since it may be gone") {
  Place place{2, true};
  auto member = place.member(0);
  place->abort();
  CHECK(member.finish({}) == Outcome::aborted);
}

TEST_CASE("a member that looks late goes by what was decided of a closed meeting, not by who has come since") {
  Place place{3};
  std::latch warns{1};
  std::latch may_look{1};
  auto late = Outcome::met;
  std::jthread first{[&] {
    auto member = place.member(0, {.warn_after = std::chrono::milliseconds{1}, .on_warning = [&](auto&) {
                                     warns.count_down();
                                     may_look.wait();
                                   }});
    late = member.meet({});
  }};
  warns.wait();
  auto member = place.member(1, {.timeout = std::chrono::milliseconds{1}});
  CHECK(member.meet({}) == Outcome::timed_out);
  // Does not ask whether the place is closed.
  CHECK(place.member(2).finish({}) == Outcome::met);
  may_look.count_down();
  first.join();
  CHECK(late == Outcome::timed_out);
}

TEST_CASE("a request to stop that only some members knew of when they came is known to all of the meeting") {
  for (std::uint32_t const first : {0U, 1U}) {
    CAPTURE(first);
    Place place{2};
    std::latch waits{1};
    bool early_knows = false;
    std::jthread early{[&] {
      auto member = place.member(
          first, {.warn_after = std::chrono::milliseconds{1}, .on_warning = [&](auto&) { waits.count_down(); }});
      CHECK(member.meet({}) == Outcome::met);
      early_knows = member.stop_agreed();
    }};
    waits.wait();
    place->request_stop();
    auto late = place.member(1 - first);
    CHECK(late.meet({}) == Outcome::met);
    early.join();
    CHECK(late.stop_agreed());
    CHECK(early_knows);
  }
}

TEST_CASE("a request to stop stays agreed when meetings are closed, and is not agreed by one that falls through") {
  for (bool const agreed : {false, true}) {
    CAPTURE(agreed);
    Place place{3};
    std::vector<Rendezvous> members;
    for (std::uint32_t rank = 0; rank < 3; ++rank) members.push_back(place.member(rank));
    auto const meet = [&](std::size_t number) {
      std::vector<std::jthread> threads;
      for (std::size_t rank = 0; rank < number; ++rank)
        threads.emplace_back([&, rank] { (void)members[rank].meet({}); });
      if (number < 3) place->end(Rank{2});
    };
    if (agreed) place->request_stop();
    meet(3);
    if (!agreed) place->request_stop();
    meet(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(members[rank].meet({}) == Outcome::ended);
      CHECK(members[rank].stop_agreed() == agreed);
    }
  }
}

TEST_CASE("a request to stop is not agreed by a meeting for which one member never came") {
  Place place{3};
  place->request_stop();
  std::array<bool, 2> knows{true, true};
  std::vector<std::jthread> threads;
  for (std::uint32_t rank : {0U, 1U}) {
    threads.emplace_back([&, rank] {
      // Above it there is nobody who would speak in its place; it has seen who came by then.
      auto member = place.member(
          rank, {.warn_after = std::chrono::milliseconds{20}, .on_warning = [&](auto&) { place->end(Rank{2}); }});
      CHECK(member.meet({}) == Outcome::ended);
      knows[rank] = member.stop_agreed();
    });
  }
  threads.clear();
  CHECK(knows == std::array{false, false});
}

TEST_CASE("who waits too long warns once of those who are missing, and then gives up for everybody") {
  using std::chrono::milliseconds;
  Place place{4};
  std::vector<std::string> warnings;
  std::jthread second{[&] {
    auto member =
        place.member(2, {.timeout = milliseconds{400}, .warn_after = milliseconds{50}, .on_warning = [](auto&) {
                           FAIL_CHECK("rank 1 waits as well, and is lower");
                         }});
    CHECK(member.meet({}) == Outcome::timed_out);
  }};
  auto member =
      place.member(1, {.timeout = milliseconds{300}, .warn_after = milliseconds{50}, .on_warning = [&](auto& text) {
                         warnings.push_back(text);
                       }});
  CHECK(member.meet({}) == Outcome::timed_out);
  CHECK(warnings == std::vector<std::string>{"rank 1 has waited 50 ms in barrier() for ranks 0 and 3"});
  CHECK(member.missing() == std::vector<std::uint32_t>{0, 3});
  CHECK(place->first_timed_out() == Rank{1});
  CHECK(place.member(0).meet({}) == Outcome::timed_out);
}

TEST_CASE(
    "what a member shows next, after a meeting that fell through, disturbs nobody who still reads the one before") {
  Place place{2};
  auto slow = place.member(0);
  std::jthread other{[&] {
    auto member = place.member(1, {.timeout = std::chrono::milliseconds{20}});
    member.next_slot().bytes[0] = std::byte{1};
    CHECK(member.meet({}) == Outcome::met);
    CHECK(member.meet({}) == Outcome::timed_out);
    member.next_slot().bytes[0] = std::byte{2};
    CHECK(member.meet({}) == Outcome::timed_out);
  }};
  CHECK(slow.meet({}) == Outcome::met);
  other.join();
  CHECK(slow.slots()[1].bytes[0] == std::byte{1});
}

TEST_CASE("a member whose warning fails waits on, since the others count on it") {
  Place place{2};
  std::latch warned{1};
  std::jthread other{[&] {
    auto member = place.member(1);
    warned.wait();
    CHECK(member.meet({}) == Outcome::met);
  }};
  auto member = place.member(0, {.warn_after = std::chrono::milliseconds{1}, .on_warning = [&](auto&) {
                                   warned.count_down();
                                   throw std::runtime_error{"nobody can be told"};
                                 }});
  CHECK(member.meet({}) == Outcome::met);
}
