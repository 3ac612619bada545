// SPDX-License-Identifier: Apache-2.0
// The same steps of two workers within fit() and in two threads written by hand, in turns.
// Arguments: microseconds of work in a step, steps in a turn, turns, report|quiet, folder for the runs.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

namespace {

constexpr int workers = 2;

struct Options {
  double work_us = 0;
  int steps = 0;
  int turns = 0;
  bool report = false;
  std::string folder;
};

struct Step {
  int number = 0;
  double loss = 0;
  double rate = 0;

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(number), CEREAL_NVP(loss), CEREAL_NVP(rate));
  }
};

auto now_s() -> double {
  return std::chrono::duration<double>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

/// A chain of dependent operations: what else runs on the core shows in its time.
auto compute(std::int64_t iterations) -> double {
  auto x = 0.5;
  for (std::int64_t i = 0; i < iterations; ++i) x = 3.9 * x * (1 - x);
  return x;
}

auto iterations_for(double microseconds) -> std::int64_t {
  constexpr std::int64_t probe = 200'000;
  auto fastest = 1.0;
  for (int i = 0; i < 20; ++i) {
    auto const start = now_s();
    if (compute(probe) < 0) throw std::runtime_error{"the work went wrong"};
    fastest = std::min(fastest, now_s() - start);
  }
  return std::llround(microseconds * 1e-6 / fastest * probe);
}

/// One worker's part of a turn: seconds per step. `average` makes one value the mean of all workers'.
template <class Average, class Report>
auto run_steps(Options const& options, std::int64_t iterations, int rank, Average const& average, Report const& report)
    -> double {
  average(0.0F);
  auto const start = now_s();
  for (int number = 0; number < options.steps; ++number) {
    auto const done = compute(iterations);
    auto const loss = average(static_cast<float>(number + rank) + (done < 0 ? 1.0F : 0.0F));
    if (loss != static_cast<float>(number) + 0.5F) throw std::runtime_error{"the mean is wrong"};
    if (options.report) report(Step{number, loss, 0.1});
  }
  return (now_s() - start) / options.steps;
}

/// What two threads need to exchange a value, and no more.
class Exchange {
 public:
  auto average(int rank, float value) -> float {
    auto& mine = places_[static_cast<std::size_t>(rank)];
    auto const& other = places_[static_cast<std::size_t>(1 - rank)];
    auto const round = mine.round.load(std::memory_order_relaxed) + 1;
    // Two values in turns: the other thread may still read the one before.
    mine.values[static_cast<std::size_t>(round & 1)] = value;
    mine.round.store(round, std::memory_order_release);
    for (int spins = 0; other.round.load(std::memory_order_acquire) < round; ++spins) {
      if (spins > 10'000) std::this_thread::yield();
    }
    return (value + other.values[static_cast<std::size_t>(round & 1)]) / workers;
  }

 private:
  struct alignas(128) ArrayLocation {
    std::atomic<std::int64_t> round{0};
    std::array<float, 2> values{};
  };
  std::array<ArrayLocation, workers> places_;
};

auto by_hand(Options const& options, std::int64_t iterations) -> double {
  Exchange exchange;
  std::array<std::vector<Step>, workers> reports;
  double step_s = 0;
  auto const work = [&](int rank) {
    auto const seconds = run_steps(
        options, iterations, rank, [&](float value) { return exchange.average(rank, value); },
        [&](Step const& step) { reports[static_cast<std::size_t>(rank)].push_back(step); });
    if (rank == 0) step_s = seconds;
  };
  {
    std::jthread const second{[&] { work(1); }};
    std::jthread const first{[&] { work(0); }};
  }
  return step_s;
}

auto in_fit(Options const& options, std::int64_t iterations) -> double {
  double step_s = 0;
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      [&](raytrain::TrainContext& ctx) {
        auto const average = [&](float value) {
          ctx.collective().all_reduce(std::span{&value, 1}, raytrain::ReduceOp::average);
          return value;
        };
        auto const seconds = run_steps(options, iterations, static_cast<int>(ctx.world_rank().value), average,
                                       [&](Step const& step) { ctx.report(step); });
        if (ctx.world_rank() == raytrain::Rank{0}) step_s = seconds;
      },
      {.scaling = {.num_workers = workers},
       .run = {.name = "steps", .storage_path = options.folder, .resume = raytrain::Resume::fresh}}};
  auto const result = trainer.fit();
  auto const expected = options.report ? static_cast<std::size_t>(options.steps) * workers : 0;
  if (result.all_reports().size() != expected) throw std::runtime_error{"reports were lost"};
  return step_s;
}

auto median(std::vector<double> values) -> double {
  std::ranges::sort(values);
  auto const middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 6) throw std::invalid_argument{"usage: steps WORK_US STEPS TURNS report|quiet FOLDER"};
  Options const options{std::atof(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
                        std::string_view{argv[4]} == "report", argv[5]};
  auto const iterations = iterations_for(options.work_us);
  std::vector<double> hand_us;
  std::vector<double> fit_us;
  std::vector<double> percent;
  std::vector<double> difference_us;
  for (int turn = 0; turn < options.turns; ++turn) {
    // Who goes first changes, so that a machine that slows down is not one side's.
    if (turn % 2 == 0) hand_us.push_back(1e6 * by_hand(options, iterations));
    fit_us.push_back(1e6 * in_fit(options, iterations));
    if (turn % 2 == 1) hand_us.push_back(1e6 * by_hand(options, iterations));
    difference_us.push_back(fit_us.back() - hand_us.back());
    percent.push_back(100 * difference_us.back() / hand_us.back());
  }
  std::printf("{\"fit_us\": %.4f, \"hand_us\": %.4f, \"overhead_us\": %.4f, \"overhead_percent\": %.4f}\n",
              median(fit_us), median(hand_us), median(difference_us), median(percent));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "steps: %s\n", error.what());
  return 1;
}
