// SPDX-License-Identifier: Apache-2.0
// From the call of fit() until both workers are in their training function, and the same for two threads.
// Arguments: starts, folder for the runs.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

namespace {

constexpr std::size_t workers = 2;

auto now_ms() -> double {
  return std::chrono::duration<double, std::milli>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

struct Start {
  double first_step_ms = 0;
  double all_ms = 0;
};

auto start_fit(std::string const& folder, int number) -> Start {
  std::array<double, workers> entered{};
  raytrain::Trainer<raytrain::testing::MinimalBackend> trainer{
      [&](raytrain::TrainContext& ctx) { entered[ctx.world_rank().value] = now_ms(); },
      {.scaling = {.num_workers = workers},
       .run = {.name = "start_" + std::to_string(number), .storage_path = folder}}};
  auto const called = now_ms();
  auto const result = trainer.fit();
  if (result.state != raytrain::RunState::finished) throw std::runtime_error{"a run did not finish"};
  return {std::ranges::max(entered) - called, now_ms() - called};
}

auto start_by_hand() -> Start {
  std::array<double, workers> entered{};
  auto const called = now_ms();
  {
    std::jthread const first{[&] { entered[0] = now_ms(); }};
    std::jthread const second{[&] { entered[1] = now_ms(); }};
  }
  return {std::ranges::max(entered) - called, now_ms() - called};
}

auto median(std::vector<Start> starts, double Start::*what) -> double {
  std::ranges::nth_element(starts, starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2), {}, what);
  return starts[starts.size() / 2].*what;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 3) throw std::invalid_argument{"usage: start STARTS FOLDER"};
  std::vector<Start> fit;
  std::vector<Start> hand;
  for (int number = 0; number < std::atoi(argv[1]); ++number) {
    fit.push_back(start_fit(argv[2], number));
    hand.push_back(start_by_hand());
  }
  std::printf("{\"fit_ms\": %.4f, \"hand_ms\": %.4f, \"whole_fit_ms\": %.4f}\n", median(fit, &Start::first_step_ms),
              median(hand, &Start::first_step_ms), median(fit, &Start::all_ms));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "start: %s\n", error.what());
  return 1;
}
