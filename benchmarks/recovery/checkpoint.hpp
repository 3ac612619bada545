// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

/// What a program without a framework keeps by itself.
struct State {
  int epoch = 0;
  std::vector<float> values = std::vector<float>(1 << 16, 1.0F);
};

inline void save(State const& state, std::filesystem::path const& folder) {
  auto const file = ::open((folder / "new").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  auto const bytes = static_cast<::ssize_t>(state.values.size() * sizeof(float));
  auto const whole = ::write(file, &state.epoch, sizeof state.epoch) == sizeof state.epoch &&
                     ::write(file, state.values.data(), state.values.size() * sizeof(float)) == bytes &&
                     ::fsync(file) == 0;
  ::close(file);
  if (!whole) throw std::runtime_error{"cannot write a checkpoint"};
  std::filesystem::rename(folder / "new", folder / "checkpoint");
}

inline auto load(State& state, std::filesystem::path const& folder) -> bool {
  std::ifstream file{folder / "checkpoint", std::ios::binary};
  if (!file) return false;
  file.read(reinterpret_cast<char*>(&state.epoch), sizeof state.epoch);
  file.read(reinterpret_cast<char*>(state.values.data()),
            static_cast<std::streamsize>(state.values.size() * sizeof(float)));
  return true;
}
