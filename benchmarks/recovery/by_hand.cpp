// SPDX-License-Identifier: Apache-2.0
// The same training as a program without a framework, which a shell starts again when it has ended badly: two threads,
// a checkpoint in each step, and in the first start a SIGKILL. Argument: folder for the checkpoint.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "moments.hpp"

namespace {

struct State {
  int epoch = 0;
  std::vector<float> values = std::vector<float>(1 << 16, 1.0F);
};

void save(State const& state, std::filesystem::path const& folder) {
  auto const file = ::open((folder / "new").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  auto const bytes = static_cast<::ssize_t>(state.values.size() * sizeof(float));
  auto const whole = ::write(file, &state.epoch, sizeof state.epoch) == sizeof state.epoch &&
                     ::write(file, state.values.data(), state.values.size() * sizeof(float)) == bytes &&
                     ::fsync(file) == 0;
  ::close(file);
  if (!whole) throw std::runtime_error{"cannot write a checkpoint"};
  std::filesystem::rename(folder / "new", folder / "checkpoint");
}

auto load(State& state, std::filesystem::path const& folder) -> bool {
  std::ifstream file{folder / "checkpoint", std::ios::binary};
  if (!file) return false;
  file.read(reinterpret_cast<char*>(&state.epoch), sizeof state.epoch);
  file.read(reinterpret_cast<char*>(state.values.data()),
            static_cast<std::streamsize>(state.values.size() * sizeof(float)));
  return true;
}

}  // namespace

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
