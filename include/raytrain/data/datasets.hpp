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

/// Errors: `not_found` when there is no dataset of that name, listing those that there are.
[[nodiscard]] inline auto find_dataset(Datasets const& datasets, std::string_view name) -> Dataset const& {
  if (auto const found = datasets.find(name); found != datasets.end()) return found->second;
  std::string present;
  for (auto const& [other, dataset] : datasets) present += (present.empty() ? "" : ", ") + other;
  throw Error{Errc::not_found, fmt::format("dataset '{}'", name),
              "is not among the run's datasets: " + (present.empty() ? "(none)" : present),
              "name one of them, or add it to TrainerConfig::datasets"};
}

[[nodiscard]] inline auto is_split(DataConfig const& config, std::string_view name) noexcept -> bool {
  return std::ranges::find(config.datasets_to_split, name) != config.datasets_to_split.end();
}

/// Refuses what would leave a worker without samples.
///
/// Errors: `invalid_config` for an empty name and for more workers than rows; `invalid_data` for a dataset without
/// rows.
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
}

}  // namespace raytrain
