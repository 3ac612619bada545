// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <raytrain/config/data_config.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain {

struct ScalingConfig;

/// A run's datasets by name.
using Datasets = std::map<std::string, Dataset, std::less<>>;

[[nodiscard]] auto dataset_names(Datasets const& datasets) -> std::string;

/// Errors: `not_found` when there is no dataset of that name, listing those that there are.
[[nodiscard]] auto find_dataset(Datasets const& datasets, std::string_view name) -> Dataset const&;

[[nodiscard]] auto is_split(DataConfig const& config, std::string_view name) noexcept -> bool;

/// Refuses what would leave a worker without samples, or give all of them the same although they should divide them.
///
/// Errors: `invalid_config` for a name that is empty or not UTF-8, for a dataset to split that is not there (but for
/// the default "train" with one worker or without datasets), and for more workers, or virtual shards where there are
/// such, than rows; `invalid_data` for a dataset without rows.
void validate_datasets(Datasets const& datasets, DataConfig const& config, ScalingConfig const& scaling);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/datasets-inl.hpp>
#endif
