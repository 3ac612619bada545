// SPDX-License-Identifier: Apache-2.0
// The same training as a program without a framework, which a shell starts again when it has ended badly: two threads,
// a checkpoint in each step, and in the first start a SIGKILL. Argument: folder for the checkpoint.
#include <signal.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "checkpoint.hpp"
#include "moments.hpp"

auto main(int argc, char** argv) -> int try {
  if (argc != 2) throw std::invalid_argument{"usage: by_hand FOLDER"};
  std::filesystem::path const folder{argv[1]};
  std::filesystem::create_directories(folder);
  Moments const moments{folder / "moments"};
  State first_worker;
  State second_worker;
  auto const resumed = load(first_worker, folder);
  second_worker = first_worker;
  auto const first = first_worker.epoch;
  std::barrier<> barrier{2};
  auto const train = [&](State& mine, State const& other, bool is_first) {
    std::vector<float> average(mine.values.size());
    for (; mine.epoch < epochs; ++mine.epoch) {
      if (!resumed && mine.epoch == last_epoch_before && !is_first) {
        moments.note("failed");
        ::raise(SIGKILL);
      }
      barrier.arrive_and_wait();
      for (std::size_t i = 0; i < average.size(); ++i) average[i] = (mine.values[i] + other.values[i]) / 2;
      barrier.arrive_and_wait();
      if (resumed && mine.epoch == first && is_first) moments.note("step");
      for (std::size_t i = 0; i < average.size(); ++i) mine.values[i] = average[i] + 1;
      if (is_first) save({mine.epoch + 1, mine.values}, folder);
    }
  };
  {
    std::jthread const second{[&] { train(second_worker, first_worker, false); }};
    train(first_worker, second_worker, true);
  }
  auto const right = std::ranges::all_of(first_worker.values, [](float value) { return value == 1.0F + epochs; });
  if (!right) throw std::runtime_error{"the values are not what an undisturbed training reaches"};
  std::printf("{\"step_ms\": %.4f}\n", moments.ms_between("failed", "step"));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "by_hand: %s\n", error.what());
  return 1;
}
