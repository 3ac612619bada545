// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <raytrain/config/scaling_config.hpp>

#include "data.hpp"

struct Options {
  std::filesystem::path data = fashion_mnist_folder;
  std::string model = "mlp";
  std::int64_t samples = 60'000;
  std::string workers = "0";
  int virtual_shards = 0;
  double gpus = 0;
  int epochs = 10;
  int patience = 0;
  std::int64_t batch_size = 64;
  int accumulate = 1;
  double clip = 0;
  std::string precision = "fp32";
  std::string compression = "none";
  std::string overlap = "measured";
  bool augment = false;
  int data_threads = 0;
  double learning_rate = 1e-3;
  std::uint64_t seed = 0;
  int max_failures = 0;
  bool processes = false;
  std::string ranks = "0";
  std::filesystem::path hosts;
  std::filesystem::path storage = "runs";
  bool fresh = false;
};

/// "4", or "1:4" for a number that may change; "0" is not set.
auto count_in(std::string const& text) -> raytrain::WorkerCount;

/// Of the command line. Ends the program after --help, and for options that cannot be.
auto options_of(int argc, char** argv) -> Options;
