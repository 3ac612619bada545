// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "minimal_run.hpp"

inline auto rows_from(std::size_t rows, double first) -> Dataset {
  std::vector<double> values(rows);
  for (std::size_t i = 0; i < rows; ++i) values[i] = first + static_cast<double>(i);
  return Dataset::from_columns({{"x", std::move(values)}});
}

inline auto preparing_config(TemporaryFolder const& folder, int workers) -> MinimalConfig {
  return {.scaling = {.num_workers = workers},
          .run = {.name = "prepared", .storage_path = folder.path()},
          .datasets = {{"train", rows_from(5'000, 0)}, {"valid", rows_from(3, 2'499.5)}},
          .preprocessor = StandardScaler{{"x"}}};
}

/// What the workers of a run saw.
struct Seen {
  std::mutex mutex{};
  std::set<std::string> preprocessors{};
  std::set<double> first_valid_values{};

  void add(TrainContext& ctx) {
    auto const valid = ctx.dataset_shard("valid").dataset();
    std::lock_guard const lock{mutex};
    preprocessors.insert(to_json(ctx.preprocessor()));
    first_valid_values.insert(valid.column("x").as<double>()[0]);
  }
};
