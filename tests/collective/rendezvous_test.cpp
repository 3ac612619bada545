// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/detail/rendezvous.hpp>

#include <cstdint>
#include <thread>

#include <doctest/doctest.h>

#include <raytrain/core/rank.hpp>

using raytrain::Rank;
using raytrain::detail::Rendezvous;
using Outcome = raytrain::detail::Rendezvous::Outcome;

TEST_CASE("meetings go on after more of them than their counter can count") {
  Rendezvous place{{1}};
  std::uint32_t wrong = 0;
  for (std::uint32_t meeting = 0; meeting < 100'000; ++meeting) {
    wrong += place.parity() == meeting % 2 ? 0U : 1U;
    wrong += place.meet() == Outcome::met ? 0U : 1U;
  }
  CHECK(wrong == 0);
}

TEST_CASE("what ends meetings is told in the order abort, break-up, end") {
  Rendezvous place{{2}};
  place.end(Rank{1});
  place.end(Rank{0});
  CHECK(place.meet() == Outcome::ended);
  CHECK(place.first_ended() == Rank{1});
  place.break_up();
  CHECK(place.meet() == Outcome::broken);
  place.abort();
  CHECK(place.meet() == Outcome::aborted);
}

TEST_CASE("members that work on each other's memory wait for each other in spite of an abort") {
  Rendezvous place{{2}};
  std::uint32_t finished = 0;
  place.abort();
  std::jthread other{[&] {
    finished = 1;
    place.finish();
  }};
  place.finish();
  CHECK(finished == 1);
}
