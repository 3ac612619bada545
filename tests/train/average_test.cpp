// SPDX-License-Identifier: Apache-2.0
// The mean of what each worker measured.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "../support/thrown_error.hpp"
#include "minimal_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr auto infinity = std::numeric_limits<double>::infinity();

/// What each of so many workers gets, by rank.
template <class T>
auto by_rank(int workers, std::function<T(TrainContext&, std::size_t rank)> const& function) -> std::vector<T> {
  TemporaryFolder const folder;
  std::mutex mutex;
  std::vector<T> results(static_cast<std::size_t>(workers));
  MinimalTrainer{[&](TrainContext& ctx) {
                   auto const rank = std::size_t{ctx.world_rank().value};
                   auto result = function(ctx, rank);
                   std::lock_guard const lock{mutex};
                   results[rank] = std::move(result);
                 },
                 {.scaling = {.num_workers = workers}, .run = {.name = "run", .storage_path = folder.path()}}}
      .fit();
  return results;
}

/// The mean that all of them get, which must be one and the same.
auto average_of(std::vector<double> const& values, std::vector<std::int64_t> const& samples = {}) -> double {
  auto const means = by_rank<double>(static_cast<int>(values.size()), [&](TrainContext& ctx, std::size_t rank) {
    return samples.empty() ? ctx.average(values[rank]) : ctx.average(values[rank], samples[rank]);
  });
  for (auto const mean : means) CHECK((mean == means.front() || (std::isnan(mean) && std::isnan(means.front()))));
  return means.front();
}

auto refusals(std::vector<Metrics> const& metrics, std::vector<int> const& samples) -> std::vector<std::string> {
  return by_rank<std::string>(static_cast<int>(metrics.size()), [&](TrainContext& ctx, std::size_t rank) {
    return thrown_error([&] { return ctx.average(metrics[rank], samples[rank]); });
  });
}

}  // namespace

TEST_CASE("the mean of one number of each worker is that of their sum in rank order") {
  CHECK(average_of({0.1, 0.7, 0.3}) == (0.1 + 0.7 + 0.3) / 3);
  CHECK(average_of({4}) == 4);
  auto const floats =
      by_rank<float>(2, [](TrainContext& ctx, std::size_t rank) { return ctx.average(rank == 0 ? 0.1F : 0.4F); });
  CHECK(floats == std::vector<float>{0.25F, 0.25F});
}

TEST_CASE("the mean of one integer of each worker does not wrap around, and rounds toward zero") {
  auto const mean_of = []<class T>(std::vector<T> const& values) {
    auto const means = by_rank<T>(static_cast<int>(values.size()),
                                  [&](TrainContext& ctx, std::size_t rank) { return ctx.average(values[rank]); });
    CHECK(means == std::vector<T>(values.size(), means.front()));
    return means.front();
  };
  CHECK(mean_of(std::vector{2'000'000'000, 2'000'000'000}) == 2'000'000'000);
  CHECK(mean_of(std::vector<std::int8_t>{127, 127, 126}) == 126);
  CHECK(mean_of(std::vector<std::uint8_t>{255, 254}) == 254);
  CHECK(mean_of(std::vector{-3, 2, -4}) == -1);
  CHECK(mean_of(std::vector{3, -2, 4}) == 1);
  CHECK(mean_of(std::vector{-2, 1}) == 0);
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(mean_of(std::vector{most, most, most - 1}) == most - 1);
  CHECK(mean_of(std::vector{least, least, least + 1}) == least + 1);
  CHECK(mean_of(std::vector{least, most}) == 0);
  CHECK(mean_of(std::vector<std::uint64_t>(3, ~std::uint64_t{0})) == ~std::uint64_t{0});
}

TEST_CASE("where all workers have the same number the mean has its bits, however many they are") {
  for (auto const workers : {1U, 3U, 4U}) {
    CHECK(average_of(std::vector<double>(workers, 0.1)) == 0.1);
    CHECK(average_of(std::vector<double>(workers, 0.1), std::vector<std::int64_t>(workers, 7)) == 0.1);
  }
}

TEST_CASE("with samples each of them counts alike, whichever worker has it") {
  CHECK(average_of({1, 4}, {3, 1}) == 1.75);
  CHECK(average_of({0.5, 0.25, 1}, {2, 4, 2}) == 0.5);
}

TEST_CASE("a worker without samples does not count, and without any at all there is no mean") {
  CHECK(average_of({not_a_number, 0.1}, {0, 5}) == 0.1);
  CHECK(average_of({infinity, 1, 4}, {0, 1, 1}) == 2.5);
  CHECK(std::isnan(average_of({1, 2}, {0, 0})));
}

TEST_CASE("a number that is not finite on a worker that has samples is in the mean") {
  CHECK(std::isnan(average_of({1, not_a_number})));
  CHECK(std::isnan(average_of({1, not_a_number}, {5, 1})));
  CHECK(average_of({1, infinity}) == infinity);
  CHECK(average_of({infinity, infinity}, {1, 2}) == infinity);
  CHECK(std::isnan(average_of({infinity, -infinity})));
}

TEST_CASE("of metrics each double is averaged, and all others stay as they are on every worker") {
  auto const averages = by_rank<Metrics>(2, [](TrainContext& ctx, std::size_t rank) {
    auto const loss = rank == 0 ? 1.0 : 4.0;
    return ctx.average({{"epoch", 3}, {"loss", loss}, {"accuracy", 0.1}, {"net", "conv"}, {"is_last", true}},
                       rank == 0 ? 3 : 1);
  });
  Metrics const expected{{"epoch", 3}, {"loss", 1.75}, {"accuracy", 0.1}, {"net", "conv"}, {"is_last", true}};
  CHECK(averages == std::vector<Metrics>(2, expected));
  auto const alike = by_rank<Metrics>(2, [](TrainContext& ctx, std::size_t rank) {
    return ctx.average({{"loss", rank == 0 ? 1.0 : 4.0}});
  });
  CHECK(alike == std::vector<Metrics>(2, Metrics{{"loss", 2.5}}));
}

TEST_CASE("averaged metrics are a report") {
  TemporaryFolder const folder;
  auto const result =
      MinimalTrainer{[](TrainContext& ctx) {
                       auto const rank = static_cast<double>(ctx.world_rank().value);
                       ctx.report(ctx.average({{"epoch", 0}, {"loss", rank}}, 1));
                     },
                     {.scaling = {.num_workers = 2}, .run = {.name = "run", .storage_path = folder.path()}}}
          .fit();
  CHECK(result.metrics.number("loss") == 0.5);
  CHECK(result.last_reports[0].metrics == result.last_reports[1].metrics);
}

TEST_CASE("workers that average other metrics are told on all of them, each with the same words") {
  auto const names = refusals({{{"loss", 1.0}, {"accuracy", 0.5}}, {{"loss", 1.0}}}, {1, 1});
  CHECK(
      names[0] ==
      "rank_mismatch: TrainContext::average: rank 0 gives the metrics loss, accuracy, and rank 1 gives loss; give the "
      "same metrics on every rank, and a double where values may differ");
  CHECK(names[1] == names[0]);
  auto const values = refusals({{{"right", 250}}, {{"right", 250}}, {{"right", 251}}}, {1, 1, 1});
  check_contains(values[0], "rank_mismatch: TrainContext::average: metric 'right' is 250 on rank 0, and 251 on rank 2");
  CHECK(values == std::vector<std::string>(3, values[0]));
  auto const types = refusals({{{"net", "3"}}, {{"net", 3}}}, {1, 1});
  check_contains(types[1], "metric 'net' is '3' on rank 0, and 3 on rank 1");
  check_contains(refusals({{{"loss", 1}}, {{"loss", 1.0}}}, {1, 1})[0], "is 1 on rank 0, and a double on rank 1");
}

TEST_CASE("fewer than no samples are refused on all workers") {
  auto const expected =
      "invalid_call: TrainContext::average: rank 1 has -2 samples; give the number of samples that the value is the "
      "mean "
      "of, 0 for none";
  CHECK(refusals({{{"loss", 1.0}}, {{"loss", 1.0}}}, {1, -2}) == std::vector<std::string>(2, expected));
  auto const of_number = by_rank<std::string>(2, [&](TrainContext& ctx, std::size_t rank) {
    return thrown_error([&] { return ctx.average(1.0, rank == 0 ? 1 : -2); });
  });
  CHECK(of_number == std::vector<std::string>(2, expected));
}
