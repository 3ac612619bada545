// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <thread>
#include <vector>

#include <raytrain/core/detail/cpu_quota.hpp>

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

/// How many cores' worth of time the calling thread's process may use at once: those of `usable_cores`, or fewer where
/// a control group allows for less, as that of a container does.
[[nodiscard]] inline auto usable_core_count() -> std::size_t {
  auto const cores = usable_cores().size();
  auto const quota = detail::cpu_quota();
  if (!quota || *quota >= static_cast<double>(cores)) return cores;
  return std::max<std::size_t>(static_cast<std::size_t>(std::ceil(*quota)), 1);
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
