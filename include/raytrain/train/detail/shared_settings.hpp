// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <raytrain/config/data_config.hpp>
#include <raytrain/config/run_config.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/rank_job.hpp>

namespace raytrain::detail {

/// XXH3 of the program's file, which differs between builds.
[[nodiscard]] auto program_digest() -> std::string;

/// What must be the same in all processes of a job, whose parts of one training would not fit together otherwise.
[[nodiscard]] auto shared_settings(std::string_view backend, ScalingConfig const& scaling, RunConfig const& run,
                                   DataConfig const& data, Datasets const& datasets) -> std::vector<SharedSetting>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/shared_settings-inl.hpp>
#endif
