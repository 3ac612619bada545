// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/adasum.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"
#include "local_world.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using Vector = std::vector<double>;

auto dot(Vector const& a, Vector const& b) -> double {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The formula.
auto combined(Vector const& a, Vector const& b) -> Vector {
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    result[i] = (1 - dot(a, b) / (2 * dot(a, a))) * a[i] + (1 - dot(a, b) / (2 * dot(b, b))) * b[i];
  }
  return result;
}

/// The tree, pair by pair.
auto expected(std::vector<Vector> level) -> Vector {
  while (level.size() > 1) {
    std::vector<Vector> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(combined(level[i], level[i + 1]));
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

/// Gradients of so many ranks, that have something in common.
auto gradients(std::size_t count, std::size_t size) -> std::vector<Vector> {
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
  Vector common(size);
  for (auto& each : common) each = normal(random);
  std::vector<Vector> all(count, common);
  for (auto& gradient : all) {
    for (auto& each : gradient) each += 2 * normal(random);
  }
  return all;
}

/// What each rank gets.
template <class T>
auto summed(std::vector<Vector> const& all) -> std::vector<std::vector<T>> {
  std::vector<std::vector<T>> results(all.size());
  LocalWorld::run({static_cast<std::uint32_t>(all.size())}, [&](Collective& collective) {
    auto const rank = collective.rank().value;
    results[rank].assign(all[rank].begin(), all[rank].end());
    adasum(collective, results[rank]);
  });
  return results;
}

template <class T>
void check_formula(std::vector<Vector> const& all, double tolerance) {
  auto const want = expected(all);
  auto const results = summed<T>(all);
  for (auto const& result : results) {
    CHECK(result == results[0]);  // bit by bit
    REQUIRE(result.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(result[i] - want[i]) < tolerance);
  }
}

}  // namespace

TEST_CASE("gradients of any number of ranks, of any size, are combined by the formula in a tree, with the same bits") {
  for (std::size_t const count : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (std::size_t const size : {1, 2, 5, 33, 257}) {
      CAPTURE(count);
      CAPTURE(size);
      auto const all = gradients(count, size);
      check_formula<double>(all, 1e-12);
      check_formula<float>(all, 1e-5);
    }
  }
}

TEST_CASE("orthogonal gradients are added, equal ones stay, opposite ones cancel, and zeros count for nothing") {
  CHECK(summed<float>({{1, 0, 0}, {0, 2, 0}, {0, 0, 3}})[2] == std::vector{1.0F, 2.0F, 3.0F});
  CHECK(summed<float>(std::vector<Vector>(4, {1, 2, -4}))[1] == std::vector{1.0F, 2.0F, -4.0F});
  CHECK(summed<double>({{1, 2}, {-1, -2}})[0] == std::vector{0.0, 0.0});
  CHECK(summed<double>({{0, 0}, {3, -2}})[0] == std::vector{3.0, -2.0});
  CHECK(summed<double>({{0, 0}, {0, 0}, {0, 0}})[0] == std::vector{0.0, 0.0});
  CHECK(summed<double>({{}, {}})[0].empty());
}

TEST_CASE("a gradient that is not finite makes the sum such on every rank") {
  for (auto const value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (auto const& result : summed<float>({{1, 2}, {3, value}, {5, 6}})) CHECK(!std::isfinite(result[1]));
  }
}

TEST_CASE("ranks whose gradients have other sizes get an error, also where their slices have the same, and keep them") {
  for (std::size_t const other : {8, 9, 20}) {
    std::array<std::string, 3> errors;
    LocalWorld::run({3}, [&](Collective& collective) {
      auto const rank = collective.rank().value;
      std::vector<float> gradient(rank == 1 ? other : 7, 1.5F);
      auto const before = gradient;
      errors[rank] = thrown_error([&] { adasum(collective, gradient); });
      CHECK(gradient == before);
    });
    check_contains(errors[0], "rank_mismatch: collective call: rank 0 calls");
    CHECK(errors[1] == errors[0]);
    CHECK(errors[2] == errors[0]);
  }
}
