// SPDX-License-Identifier: Apache-2.0
// Shuffled epochs from memory, each batch copied into buffers of the program's own:  batches FEATURES ROWS EPOCHS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_shard.hpp>

#include "numbered_rows.hpp"
#include "turns.hpp"

/// Until the first batch of an epoch is there that goes on behind so many of its samples, without what `fit()` computes
/// of the dataset before.
static auto begin_ms(raytrain::Dataset const& data, std::int64_t epoch, std::uint64_t samples) -> double {
  raytrain::DatasetShard shard{data, {}};
  shard.begin_at({epoch, samples});
  std::vector<std::int64_t> labels(batch_size);
  return time_ms(wall_ms, [&] {
    auto const batches = shard.batches({.batch_size = batch_size, .epoch = epoch});
    auto const batch = *batches.begin();
    batch.gather("label", std::span{labels}.first(batch.size()));
  });
}

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"arguments: FEATURES ROWS EPOCHS"};
  auto const width = std::stoul(argv[1]);
  auto const rows = std::stoul(argv[2]);
  std::vector<float> features(rows * width);
  std::vector<std::int64_t> labels(rows);
  number_rows(std::span{features}, width);
  number_rows(std::span{labels}, 1);
  auto const data =
      raytrain::Dataset::from_columns({{"features", std::move(features), {width}}, {"label", std::move(labels)}});
  raytrain::DatasetShard shard{data, {}};
  std::vector<float> batch_features(batch_size * width);
  std::vector<std::int64_t> batch_labels(batch_size);
  std::vector<double> times;
  for (std::int64_t epoch = 0; epoch < std::stol(argv[3]); ++epoch) {
    RowCheck check;
    times.push_back(time_ms(wall_ms, [&] {
      for (auto const batch : shard.batches({.batch_size = batch_size, .epoch = epoch})) {
        auto const its_features = std::span{batch_features}.first(batch.size() * width);
        auto const its_labels = std::span{batch_labels}.first(batch.size());
        batch.gather("features", its_features);
        batch.gather("label", its_labels);
        check.add(its_features, its_labels);
      }
    }));
    check.check(rows);
  }
  (void)data.digest();
  std::vector<double> extra_ms;
  for (std::int64_t epoch = 100; epoch < 121; ++epoch) {  // each has its own order, which is computed once
    auto const at_begin = begin_ms(data, epoch, 0);
    extra_ms.push_back(begin_ms(data, epoch + 100, rows - batch_size) - at_begin);
  }
  fmt::print("{{\"rows_per_s\": {}, \"position_ms\": {}}}\n", 1e3 * static_cast<double>(rows) / median(times),
             std::max(0.0, median(extra_ms)));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "batches: %s\n", error.what());
  return 1;
}
