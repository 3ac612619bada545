// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

/// Says beside RANK and WORLD_SIZE that raytrain has set them: "2/4" for rank 2 of 4.
inline constexpr char const* rank_marker = "RAYTRAIN_SET_RANK";

/// What torchrun tells a worker by its environment, RANK=2 and the like, and the marker.
[[nodiscard]] auto rank_variables(Placement const& placement) -> std::vector<std::string>;

/// Sets them in this process, but for those that have these values already.
///
/// Threads: not while another one of this process reads or changes the environment.
void set_rank_variables(Placement const& placement);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/rank_variables-inl.hpp>
#endif
