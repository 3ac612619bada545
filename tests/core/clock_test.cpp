// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/clock.hpp>

#include <chrono>
#include <type_traits>

#include <doctest/doctest.h>

static_assert(std::is_abstract_v<raytrain::Clock> && std::has_virtual_destructor_v<raytrain::Clock>);
static_assert(!std::is_copy_constructible_v<raytrain::Clock>);

TEST_CASE("the system's clock never goes back") {
  raytrain::SystemClock const clock;
  auto last = clock.now();
  for (int i = 0; i < 10000; ++i) {
    auto const now = clock.now();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("the time of day is that of the operating system") {
  raytrain::SystemClock const clock;
  auto const before = std::chrono::system_clock::now();
  auto const time = clock.wall_now();
  CHECK(time >= before);
  CHECK(time <= std::chrono::system_clock::now());
}
