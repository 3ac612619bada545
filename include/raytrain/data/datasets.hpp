// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <raytrain/config/data_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// A run's datasets by name.
using Datasets = std::map<std::string, Dataset, std::less<>>;

[[nodiscard]] inline auto dataset_names(Datasets const& datasets) -> std::string {
  std::string names;
  for (auto const& [name, dataset] : datasets) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "(none)" : names;
}

/// Errors: `not_found` when there is no dataset of that name, listing those that there are.
[[nodiscard]] inline auto find_dataset(Datasets const& datasets, std::string_view name) -> Dataset const& {
  if (auto const found = datasets.find(name); found != datasets.end()) return found->second;
  throw Error{Errc::not_found, fmt::format("dataset '{}'", name),
              "is not among the run's datasets: " + dataset_names(datasets),
              "name one of them, or add it to TrainerConfig::datasets"};
}

[[nodiscard]] inline auto is_split(DataConfig const& config, std::string_view name) noexcept -> bool {
  return std::ranges::find(config.datasets_to_split, name) != config.datasets_to_split.end();
}

/// Refuses what would leave a worker without samples, or give all of them the same although they should divide them.
///
/// Errors: `invalid_config` for an empty name, for a dataset to split that is not there (but for the default "train"
/// with one worker or without datasets), and for more workers than rows; `invalid_data` for a dataset without rows.
inline void validate_datasets(Datasets const& datasets, DataConfig const& config, WorldSize world_size) {
  for (auto const& [name, dataset] : datasets) {
    if (name.empty()) {
      throw Error{Errc::invalid_config, "TrainerConfig::datasets", "a dataset's name is empty",
                  "name it, for instance \"train\""};
    }
    if (dataset.rows() == 0) {
      throw Error{Errc::invalid_data, fmt::format("dataset '{}'", name), "has no rows", "give it some or leave it out"};
    }
    if (is_split(config, name) && dataset.rows() < world_size.value) {
      throw Error{Errc::invalid_config, fmt::format("dataset '{}'", name),
                  fmt::format("{} rows cannot be divided among {} workers", dataset.rows(), world_size.value),
                  fmt::format("use at most {} workers, or take '{}' out of DataConfig::datasets_to_split",
                              dataset.rows(), name)};
    }
  }
  auto const is_default = config.datasets_to_split == DataConfig{}.datasets_to_split;
  if (is_default && (datasets.empty() || world_size.value == 1)) return;
  for (auto const& name : config.datasets_to_split) {
    if (datasets.contains(name)) continue;
    throw Error{
        Errc::invalid_config, "DataConfig::datasets_to_split",
        fmt::format("no dataset is named '{}', so that each of {} workers would train on all rows; there are {}", name,
                    world_size.value, dataset_names(datasets)),
        "name the datasets to divide, or write {} to give all rows to every worker"};
  }
}

}  // namespace raytrain
