// SPDX-License-Identifier: Apache-2.0
// The order of one epoch that is shuffled in windows, of rows without columns, so that their number is not bounded by
// the memory:  windows ROWS
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>

#include "../peak_memory.hpp"
#include "turns.hpp"

auto main(int argc, char** argv) -> int try {
  if (argc != 2) throw std::invalid_argument{"arguments: ROWS"};
  auto const rows = std::stoull(argv[1]);
  raytrain::DatasetShard shard{raytrain::Dataset::of_rows(rows), {}};
  std::uint64_t count = 0;
  std::uint64_t sum = 0;  // of the rows' numbers, and of their squares, modulo 2^64
  std::uint64_t squares = 0;
  auto const ms = time_ms(cpu_ms, [&] {
    for (auto const batch : shard.batches({.batch_size = 256, .epoch = 0, .shuffle_window = 65'536})) {
      count += batch.size();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        auto const row = batch.row(i);
        sum += row;
        squares += row * row;
      }
    }
  });
  std::uint64_t wanted_sum = 0;
  std::uint64_t wanted_squares = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    wanted_sum += row;
    wanted_squares += row * row;
  }
  if (count != rows || sum != wanted_sum || squares != wanted_squares) {
    throw std::runtime_error{"rows are missing, or come twice"};
  }
  fmt::print("{{\"row_ns\": {}, \"peak_mib\": {}}}\n", 1e6 * ms / static_cast<double>(rows), peak_mib());
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "windows: %s\n", error.what());
  return 1;
}
