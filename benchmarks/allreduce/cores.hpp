// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <cstdint>
#include <vector>

/// Binds the calling thread to a core of its own where there are enough, as mpirun binds ranks.
inline void bind(std::uint32_t worker, std::uint32_t workers, std::vector<int> const& cores) {
  if (workers > cores.size()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[worker], &one);
  sched_setaffinity(0, sizeof one, &one);
}
