// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/survivors.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using raytrain::Attempt;
using raytrain::Rank;
using raytrain::WorldSize;
using raytrain::detail::Survivors;

namespace {

auto workers_of(Survivors const& survivors, std::vector<std::uint32_t> const& ranks, std::uint64_t attempt)
    -> std::vector<std::uint32_t> {
  std::vector<std::uint32_t> workers;
  for (auto const rank : ranks) workers.push_back(survivors.worker_of(Rank{rank}, Attempt{attempt}).value);
  return workers;
}

}  // namespace

TEST_CASE("Ranks that are left move up, from the attempt on that begins without the lost ones") {
  Survivors survivors{WorldSize{5}};
  survivors.lose_rank(Rank{1});
  CHECK(survivors.left() == WorldSize{4});
  CHECK(survivors.workers() == WorldSize{5});
  CHECK(workers_of(survivors, {0, 1, 2, 3, 4}, 1) == std::vector<std::uint32_t>{0, 1, 2, 3, 4});

  survivors.begin(Attempt{2});
  CHECK(survivors.workers() == WorldSize{4});
  CHECK(workers_of(survivors, {0, 2, 3, 4}, 1) == std::vector<std::uint32_t>{0, 2, 3, 4});
  CHECK(workers_of(survivors, {0, 2, 3, 4}, 2) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(workers_of(survivors, {0, 2, 3, 4}, 3) == std::vector<std::uint32_t>{0, 1, 2, 3});
}

TEST_CASE("A rank is lost once, and in whatever order ranks are lost they are told in theirs") {
  Survivors survivors{WorldSize{4}};
  survivors.lose_rank(Rank{3});
  survivors.begin(Attempt{2});
  survivors.lose_rank(Rank{0});
  survivors.lose_rank(Rank{3});
  survivors.begin(Attempt{3});
  CHECK(survivors.lost() == std::vector{Rank{0}, Rank{3}});
  CHECK(survivors.left() == WorldSize{2});
  CHECK(workers_of(survivors, {1, 2}, 2) == std::vector<std::uint32_t>{1, 2});
  CHECK(workers_of(survivors, {1, 2}, 3) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("A worker is left as long as its rank is, whatever rank has spoken as it before") {
  Survivors survivors{WorldSize{3}};
  survivors.lose_rank(Rank{0});
  CHECK_FALSE(survivors.has(Rank{0}, Attempt{1}));
  CHECK(survivors.has(Rank{1}, Attempt{1}));
  CHECK(survivors.has(Rank{2}, Attempt{1}));
  survivors.begin(Attempt{2});
  CHECK(survivors.has(Rank{0}, Attempt{2}));
  CHECK(survivors.has(Rank{1}, Attempt{2}));
  CHECK_FALSE(survivors.has(Rank{2}, Attempt{2}));
  survivors.lose_rank(Rank{1});
  CHECK_FALSE(survivors.has(Rank{0}, Attempt{2}));
  CHECK(survivors.has(Rank{1}, Attempt{2}));
}
