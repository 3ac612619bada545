// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <raytrain/config/scaling_config.hpp>

namespace raytrain::detail {

/// Words for the end of `ScalingConfig::job_command`, by which it does as `ScalingConfig::placement_strategy` says.
///
/// Errors: `invalid_config` for a command of which raytrain does not know how to say it, and for one that is told
/// already.
[[nodiscard]] auto placement_options(ScalingConfig const& scaling) -> std::vector<std::string>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/placement_options-inl.hpp>
#endif
