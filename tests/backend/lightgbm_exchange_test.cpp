// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/lightgbm/lightgbm_network.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/backend/lightgbm/lightgbm_booster.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/backend/lightgbm/lightgbm_network.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/detail/task.hpp>

#include "../collective/local_world.hpp"
#include "boosting_samples.hpp"

namespace {

using namespace raytrain;
using detail::Operation;
using Counts = std::map<Operation, int>;

/// Counts a rank's operations.
class CountingCollective final : public Collective {
 public:
  CountingCollective(Collective& inside, Counts& counts) : inside_{inside}, counts_{counts} {}

  [[nodiscard]] auto rank() const noexcept -> Rank override { return inside_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return inside_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return inside_.stop_agreed(); }
  [[nodiscard]] auto start(Task const& task) -> Pending override {
    ++counts_[task.call.operation];
    return inside_.start(task);
  }

 private:
  Collective& inside_;
  Counts& counts_;
};

/// Replaces each value of `to` by what `combine` makes of it and of that of `from`.
template <class T, auto combine>
void reduce(char const* from, char* to, int type_bytes, std::int32_t size) {
  CHECK(type_bytes == sizeof(T));
  for (std::int32_t i = 0; i < size; i += type_bytes) {
    T a{};
    T b{};
    std::memcpy(&a, to + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    a = combine(a, b);
    std::memcpy(to + i, &a, sizeof a);
  }
}

constexpr auto sum = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
constexpr auto largest = [](auto a, auto b) { return std::max(a, b); };
using Triple = std::array<float, 3>;
constexpr auto first_largest = [](Triple const& a, Triple const& b) { return a[0] < b[0] ? b : a; };

/// Every rank's block of unequal lengths, of which the second is empty, against a serial loop.
template <class T, auto combine, class Make>
auto operations_of(Make const& make) -> Counts {
  constexpr std::uint32_t ranks = 3;
  constexpr std::array<std::size_t, ranks> counts{5, 0, 9};
  constexpr std::size_t all = 14;
  std::array<Counts, ranks> operations;
  LocalWorld::run({ranks}, [&](LocalCollective& local) {
    auto const me = local.rank().value;
    CountingCollective collective{local, operations[me]};
    detail::LightGBMExchange exchange{collective};
    std::array<std::int32_t, ranks> starts{};
    std::array<std::int32_t, ranks> lengths{};
    for (std::size_t rank = 0, at = 0; rank < ranks; at += counts[rank++]) {
      starts[rank] = static_cast<std::int32_t>(at * sizeof(T));
      lengths[rank] = static_cast<std::int32_t>(counts[rank] * sizeof(T));
    }
    std::array<T, all> input{};
    for (std::size_t i = 0; i < all; ++i) input[i] = make(i, me);
    std::array<T, all> output{};
    exchange.reduce_scatter({starts, lengths}, {.input = reinterpret_cast<std::uint8_t const*>(input.data()),
                                                .output = reinterpret_cast<std::uint8_t*>(output.data()),
                                                .type_bytes = sizeof(T),
                                                .reducer = &reduce<T, combine>});
    for (std::size_t i = 0; i < counts[me]; ++i) {
      auto const at = static_cast<std::size_t>(starts[me]) / sizeof(T) + i;
      auto expected = make(at, 0);
      for (std::uint32_t rank = 1; rank < ranks; ++rank) expected = combine(expected, make(at, rank));
      CHECK(output[i] == expected);
    }
  });
  CHECK(operations[0] == operations[1]);
  CHECK(operations[0] == operations[2]);
  return operations[0];
}

auto number(std::size_t at, std::uint32_t rank) -> double {
  return 1.0 / static_cast<double>(3 * at + 7 * rank + 1) - 0.1;
}

}  // namespace

TEST_CASE("sums of blocks of unequal lengths are one reduce_scatter, in rank order to the bit") {
  CHECK(operations_of<double, sum>(number) == Counts{{Operation::reduce_scatter, 1}});
  auto const whole = [](std::size_t at, std::uint32_t rank) { return std::uint64_t{at} << (20U * rank); };
  CHECK(operations_of<std::uint64_t, sum>(whole) == Counts{{Operation::reduce_scatter, 1}});
  auto const half = [](std::size_t at, std::uint32_t rank) {
    return static_cast<std::uint32_t>(at * 0x7000'0000U + rank);
  };
  CHECK(operations_of<std::uint32_t, sum>(half) == Counts{{Operation::reduce_scatter, 1}});
}

TEST_CASE("what is not a sum is one exchange, reduced as LightGBM says") {
  CHECK(operations_of<double, largest>(number) == Counts{{Operation::all_gather, 1}});
  auto const triple = [](std::size_t at, std::uint32_t rank) {
    return Triple{static_cast<float>(at * 5 % 7 + rank), static_cast<float>(rank), 0};
  };
  CHECK(operations_of<Triple, first_largest>(triple) == Counts{{Operation::all_gather, 1}});
}

TEST_CASE("LightGBM adds up its histograms by reduce_scatter, one for each, and by no other operation") {
  constexpr std::uint32_t ranks = 3;
  std::array<Counts, ranks> operations;
  std::array<std::string, ranks> models;
  LocalWorld::run({ranks}, [&](LocalCollective& local) {
    auto const me = local.rank().value;
    CountingCollective collective{local, operations[me]};
    LightGBMNetwork const network{collective};
    std::map<std::string, std::string> const params{
        {"objective", "binary"},   {"num_machines", "3"}, {"tree_learner", "data"},   {"num_leaves", "8"},
        {"deterministic", "true"}, {"num_threads", "1"},  {"force_col_wise", "true"}, {"verbosity", "0"}};
    auto const rows = testing::sample(1000, me + 1);
    LightGBMDataset const train{rows, {.label = "target", .params = params}};
    LightGBMBooster booster{train, params};
    for (int round = 0; round < 3; ++round) booster.update();
    models[me] = booster.to_text();
  });
  CHECK(models[0] == models[1]);
  CHECK(models[0] == models[2]);
  CHECK(operations[0] == operations[1]);
  CHECK(operations[0][Operation::gather] == 0);
  CHECK(operations[0][Operation::all_gather] == 0);
  CHECK(operations[0][Operation::reduce_scatter] == 3 * 7);  // one for each split of three trees of eight leaves
}
