// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <thread>
#include <vector>

#include <raytrain/core/detail/cpu_quota.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto usable_cores() -> std::vector<int> {
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

RAYTRAIN_INLINE auto usable_core_count() -> std::size_t {
  auto const cores = usable_cores().size();
  auto const quota = detail::cpu_quota();
  if (!quota || *quota >= static_cast<double>(cores)) return cores;
  return std::max<std::size_t>(static_cast<std::size_t>(std::ceil(*quota)), 1);
}

RAYTRAIN_INLINE void bind_to_cores(std::vector<int> const& cores) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (auto const core : cores) CPU_SET(core, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace raytrain
