// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <cstdint>
#include <vector>

/// Cores that this process may use, before any of its threads is bound to one.
inline auto allowed_cores() -> std::vector<int> {
  std::vector<int> cores;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

/// Binds the calling thread to a core of its own where there are enough, as mpirun binds ranks.
inline void bind(std::uint32_t worker, std::uint32_t workers, std::vector<int> const& cores) {
  if (workers > cores.size()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[worker], &one);
  sched_setaffinity(0, sizeof one, &one);
}
