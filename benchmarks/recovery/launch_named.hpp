// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <raytrain/config/scaling_config.hpp>

/// Of a benchmark's argument: threads, processes or mpirun. Errors: `std::out_of_range` for another one.
inline auto launch_named(std::string const& name) -> raytrain::Launch {
  std::map<std::string, raytrain::Launch> const launches{{"threads", raytrain::Launch::threads},
                                                         {"processes", raytrain::Launch::processes},
                                                         {"mpirun", raytrain::Launch::mpirun}};
  return launches.at(name);
}
