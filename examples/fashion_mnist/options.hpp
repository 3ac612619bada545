// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data.hpp"

struct Options {
  std::filesystem::path data = fashion_mnist_folder;
  std::string model = "mlp";
  std::int64_t samples = 60'000;
  int workers = 0;
  int epochs = 10;
  std::int64_t batch_size = 64;
  double learning_rate = 1e-3;
  std::uint64_t seed = 0;
  int max_failures = 0;
  bool processes = false;
  int ranks = 0;
  std::filesystem::path storage = "runs";
  bool fresh = false;
};

/// Of the command line. Ends the program after --help, and for options that cannot be.
auto options_of(int argc, char** argv) -> Options;
