// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <raytrain/config/data_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/datasets.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto dataset_names(Datasets const& datasets) -> std::string {
  std::string names;
  for (auto const& [name, dataset] : datasets) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "(none)" : names;
}

RAYTRAIN_INLINE auto find_dataset(Datasets const& datasets, std::string_view name) -> Dataset const& {
  if (auto const found = datasets.find(name); found != datasets.end()) return found->second;
  throw Error{Errc::not_found, fmt::format("dataset '{}'", name),
              "is not among the run's datasets: " + dataset_names(datasets),
              "name one of them, or add it to TrainerConfig::datasets"};
}

RAYTRAIN_INLINE auto is_split(DataConfig const& config, std::string_view name) noexcept -> bool {
  return std::ranges::find(config.datasets_to_split, name) != config.datasets_to_split.end();
}

RAYTRAIN_INLINE void validate_datasets(Datasets const& datasets, DataConfig const& config,
                                       ScalingConfig const& scaling) {
  auto const world_size = scaling.world_size();
  auto const has_virtual_shards = scaling.virtual_shards > 0;
  auto const shards = has_virtual_shards ? static_cast<std::uint32_t>(scaling.virtual_shards) : world_size.value;
  auto const* const kind = has_virtual_shards ? "virtual shards" : "workers";
  for (auto const& [name, dataset] : datasets) {
    if (name.empty()) {
      throw Error{Errc::invalid_config, "TrainerConfig::datasets", "a dataset's name is empty",
                  "name it, for instance \"train\""};
    }
    if (!is_utf8(name)) {
      throw Error{Errc::invalid_config, "TrainerConfig::datasets", "the name '" + to_utf8(name) + "' is not UTF-8",
                  "name it in UTF-8, for instance \"train\""};
    }
    if (dataset.rows() == 0) {
      throw Error{Errc::invalid_data, fmt::format("dataset '{}'", name), "has no rows", "give it some or leave it out"};
    }
    if (is_split(config, name) && dataset.rows() < shards) {
      throw Error{Errc::invalid_config, fmt::format("dataset '{}'", name),
                  fmt::format("{} rows cannot be divided among {} {}", dataset.rows(), shards, kind),
                  fmt::format("use at most {} {}, or take '{}' out of DataConfig::datasets_to_split", dataset.rows(),
                              kind, name)};
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
