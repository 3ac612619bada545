// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/rank_job.hpp>

namespace raytrain::detail {

struct FitPlan;

/// Name of the running program, the same for every way of starting it.
[[nodiscard]] auto program_name() -> std::string;

/// XXH3 of the program's file, which differs between builds.
[[nodiscard]] auto program_digest() -> std::string;

/// What must be the same in all processes of a job, whose parts of one training would not fit together otherwise.
[[nodiscard]] auto shared_settings(FitPlan const& plan) -> std::vector<SharedSetting>;

// What a checkpoint's manifest keeps of the data that it was trained on, by the datasets' names.

[[nodiscard]] auto rows_of(Datasets const& datasets) -> std::map<std::string, std::uint64_t>;

[[nodiscard]] auto digests_of(Datasets const& datasets) -> std::map<std::string, std::string>;

/// A warning for each thing that was another one before the checkpoint: the seed, and rows and contents of datasets.
/// Between epochs that is for the user to decide; `DatasetShard::batches` refuses a position within one.
[[nodiscard]] auto changes_since(Checkpoint const& checkpoint, std::uint64_t seed, Datasets const& datasets)
    -> std::vector<std::string>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/run_identity-inl.hpp>
#endif
