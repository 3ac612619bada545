// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <thread>
#include <vector>

namespace raytrain {

/// Numbers of the cores that the calling thread may run on, at least one: those of the process, if it is not bound.
///
/// Where there are more of them than the system's set has room for, those of the machine.
[[nodiscard]] inline auto usable_cores() -> std::vector<int> {
  std::vector<int> cores;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  } else {
    for (unsigned core = 0; core < std::thread::hardware_concurrency(); ++core) cores.push_back(static_cast<int>(core));
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

/// Lets the calling thread, and those that it starts from now on, run on these cores alone. Numbers that no core has
/// are ignored, and where the system refuses everything stays as it was.
inline void bind_to_cores(std::vector<int> const& cores) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (auto const core : cores) CPU_SET(core, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace raytrain
