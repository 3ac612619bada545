// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/rank_variables.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto rank_variables(Placement const& placement) -> std::vector<std::string> {
  auto const rank = std::to_string(placement.world_rank.value);
  auto const size = std::to_string(placement.world_size.value);
  return {"RANK=" + rank, "WORLD_SIZE=" + size, "LOCAL_RANK=" + std::to_string(placement.local_rank.value),
          "LOCAL_WORLD_SIZE=" + std::to_string(placement.local_world_size.value),
          std::string{rank_marker} + '=' + rank + '/' + size};
}

RAYTRAIN_INLINE void set_rank_variables(Placement const& placement) {
  for (auto const& variable : rank_variables(placement)) {
    auto const equals = variable.find('=');
    auto const name = variable.substr(0, equals);
    auto const value = variable.substr(equals + 1);
    auto const* const present = std::getenv(name.c_str());
    if (present == nullptr || present != value) ::setenv(name.c_str(), value.c_str(), 1);
  }
}

}  // namespace raytrain::detail
