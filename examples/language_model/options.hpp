// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "text.hpp"

struct Options {
  std::filesystem::path text = licences_folder;
  int workers = 0;
  double gpus = 0;
  int epochs = 10;
  std::int64_t batch_size = 8;
  int accumulate = 1;
  double clip = 1;
  std::string precision = "bf16";
  bool activation_checkpointing = false;
  double learning_rate = 2e-3;
  std::uint64_t seed = 0;
  std::filesystem::path storage = "runs";
  bool fresh = false;
};

/// Of the command line. Ends the program after --help, and for options that cannot be.
auto options_of(int argc, char** argv) -> Options;
