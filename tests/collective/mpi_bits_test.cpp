// SPDX-License-Identifier: Apache-2.0
// What sums over MPI are, bit by bit where that is promised.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/adasum.hpp>
#include <raytrain/collective/mpi.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/reduction.hpp>
#include <raytrain/testing/collective_conformance.hpp>

#include "local_world.hpp"
#include "mpi_world.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

auto input(Rank rank, std::size_t size) -> std::vector<float> {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = value_at<float>(size, rank.value, i);
  return values;
}

/// What threads of this process make of the same inputs.
auto local_sum(std::uint32_t ranks, std::size_t size) -> std::vector<float> {
  std::vector<float> result;
  LocalWorld::run({ranks}, [&](auto& collective) {
    auto values = input(collective.rank(), size);
    collective.all_reduce(std::span<float>{values}, ReduceOp::sum);
    if (collective.rank() == Rank{0}) result = values;
  });
  return result;
}

auto different_bits(std::span<float const> values, std::span<float const> others) -> std::size_t {
  return wrong_bits<float>(values, [&](std::size_t i) { return others[i]; });
}

/// How many elements of a reduction in another order than rank order are farther off than its rounding can be.
template <class T>
auto far_off(std::span<T const> values, std::uint64_t seed, std::uint32_t ranks, ReduceOp op) -> std::size_t {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    T magnitude = op == ReduceOp::product ? T{1} : T{0};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      auto const value = std::abs(value_at<T>(seed, rank, i));
      magnitude = op == ReduceOp::product ? magnitude * value : magnitude + value;
    }
    auto const allowed = std::numeric_limits<T>::epsilon() * static_cast<T>(ranks) * magnitude;
    wrong += std::abs(values[i] - expected_at<T>(seed, ranks, i, op)) <= allowed ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("a sum has the bits that threads of one process get", Setup, InSharedMemory, OnOneHost,
                   RankOrderOnManyHosts, RankOrderOnHostsOfTwo, CallsChecked, InPieces) {
  using World = MpiWorld<Setup>;
  for (std::size_t const size : {5U, 2'000U, 262'144U}) {
    CAPTURE(size);
    check_none_wrong<World>([&](auto& collective) {
      auto const ranks = collective.size().value;
      auto values = input(collective.rank(), size);
      collective.all_reduce(std::span<float>{values}, ReduceOp::sum);
      auto rooted = input(collective.rank(), size);
      collective.reduce(std::span<float>{rooted}, ReduceOp::sum, Rank{ranks - 1});
      auto const expected = local_sum(ranks, size);
      auto const of_root = collective.rank() == Rank{ranks - 1} ? expected : input(collective.rank(), size);
      return different_bits(values, expected) + different_bits(rooted, of_root);
    });
  }
}

TEST_CASE_TEMPLATE("an adaptive sum has the bits that threads of one process get", Setup, InSharedMemory,
                   RankOrderOnManyHosts, RankOrderOnHostsOfTwo, InPieces) {
  for (std::size_t const size : {5U, 2'001U}) {
    CAPTURE(size);
    check_none_wrong<MpiWorld<Setup>>([&](auto& collective) {
      std::vector<float> expected;
      LocalWorld::run(collective.size(), [&](auto& local) {
        auto values = input(local.rank(), size);
        adasum(local, values);
        if (local.rank() == Rank{0}) expected = values;
      });
      auto values = input(collective.rank(), size);
      adasum(collective, values);
      return different_bits(values, expected);
    });
  }
}

TEST_CASE_TEMPLATE("in MPI's own order, sums of floats are right within rounding and the same on every rank", Setup,
                   InSharedMemory, OnHostsOfTwo, OnManyHosts) {
  check_none_wrong<MpiWorld<Setup>>([](auto& collective) {
    auto const ranks = collective.size().value;
    auto const rank = collective.rank();
    std::size_t wrong = 0;
    for_types<float, double>([&]<class T>(std::type_identity<T>) {
      for (auto const op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product}) {
        for (std::size_t const size : {1U, 300U, 30'000U}) {
          auto values = filled<T>(size, rank, [&](std::size_t i) { return value_at<T>(size, rank.value, i); });
          collective.all_reduce(values.span(), op);
          wrong += far_off<T>(values.span(), size, ranks, op);
          std::vector<T> all(size * ranks);
          collective.all_gather(values.span(), std::span<T>{all});
          wrong += wrong_bits<T>(all, [&](std::size_t i) { return values.span()[i % size]; });
          auto rooted = filled<T>(size, rank, [&](std::size_t i) { return value_at<T>(size, rank.value, i); });
          collective.reduce(rooted.span(), op, Rank{0});
          if (rank == Rank{0}) {
            wrong += far_off<T>(rooted.span(), size, ranks, op);
          } else {
            wrong += wrong_bits<T>(rooted.span(), [&](std::size_t i) { return value_at<T>(size, rank.value, i); });
          }
        }
      }
    });
    return wrong;
  });
}

TEST_CASE_TEMPLATE("in MPI's own order, what does not depend on the order has the bits of rank order", Setup,
                   InSharedMemory, OnHostsOfTwo, OnManyHosts) {
  check_none_wrong<MpiWorld<Setup>>([](auto& collective) {
    std::size_t wrong = 0;
    auto const root = Rank{collective.size().value - 1};
    for_all_types([&]<class T>(std::type_identity<T>) {
      for (auto const op : all_ops) {
        bool const selects = op == ReduceOp::min || op == ReduceOp::max;
        if (std::is_floating_point_v<T> && !selects) continue;
        for (std::size_t const size : {0U, 1U, 300U, 30'000U}) {
          CheckedOperation const checked{.seed = size, .size = size, .op = op, .root = root};
          wrong += wrong_in_all_reduce<T>(collective, checked);
          wrong += wrong_in_reduce<T>(collective, checked);
        }
      }
    });
    return wrong;
  });
}

TEST_CASE_TEMPLATE("in MPI's own order, a NaN of any rank is the minimum and the maximum", Setup, InSharedMemory,
                   OnHostsOfTwo, OnManyHosts) {
  check_none_wrong<MpiWorld<Setup>>([](auto& collective) {
    std::size_t wrong = 0;
    for (std::uint32_t from = 0; from < collective.size().value; ++from) {
      for (auto const op : all_ops) {
        std::vector<double> values(7, 1.5);
        if (collective.rank() == Rank{from}) values[3] = std::numeric_limits<double>::quiet_NaN();
        collective.all_reduce(std::span<double>{values}, op);
        wrong += std::isnan(values[3]) && !std::isnan(values[2]) ? 0 : 1;
      }
    }
    return wrong;
  });
}

// Run by hosts.py alone.
TEST_CASE("on two hosts, sums are in rank order or in MPI's own, as was asked for" * doctest::skip()) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int ranks_here = 0;
  MPI_Comm_size(host, &ranks_here);
  MPI_Comm_free(&host);
  REQUIRE(ranks_here == 2);
  auto options = patient_options();
  for (auto const reduction : {raytrain::Reduction::automatic, raytrain::Reduction::rank_order}) {
    options.reduction = reduction;
    raytrain::MpiCollective collective{std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD, options)};
    for (std::size_t const size : {5U, 2'000U, 262'144U}) {
      CAPTURE(size);
      auto values = input(collective.rank(), size);
      collective.all_reduce(std::span<float>{values}, ReduceOp::sum);
      if (reduction == raytrain::Reduction::automatic) {
        CHECK(far_off<float>(values, size, 4, ReduceOp::sum) == 0);
      } else {
        CHECK(different_bits(values, local_sum(4, size)) == 0);
      }
    }
  }
}
