// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/identifiers.hpp>

#include <concepts>
#include <type_traits>

#include <doctest/doctest.h>

using raytrain::Rank;
using raytrain::WorldSize;

// A rank is not a world size and neither is a number: swapped arguments do not compile.
static_assert(!std::convertible_to<Rank, WorldSize> && !std::convertible_to<WorldSize, Rank>);
static_assert(!std::convertible_to<unsigned, Rank> && !std::convertible_to<unsigned, WorldSize>);
static_assert(!std::convertible_to<Rank, unsigned> && !std::equality_comparable_with<Rank, WorldSize>);
static_assert(std::is_trivially_copyable_v<Rank> && sizeof(Rank) == 4);

TEST_CASE("ranks are ordered by their position, and the first one is 0") {
  CHECK(Rank{} == Rank{0});
  CHECK(Rank{1} < Rank{2});
  CHECK(WorldSize{3} > WorldSize{2});
}
