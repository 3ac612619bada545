// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <thread>
#include <vector>

namespace raytrain {

/// Numbers of the cores that this process may run on, at least one.
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

}  // namespace raytrain
