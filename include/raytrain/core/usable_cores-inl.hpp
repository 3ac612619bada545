// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto quota_in(std::filesystem::path const& group, bool is_v2) -> std::optional<double> {
  double quota = -1;
  double period = 0;
  if (is_v2) {
    std::ifstream{group / "cpu.max"} >> quota >> period;  // "max 100000" is no number
  } else {
    std::ifstream{group / "cpu.cfs_quota_us"} >> quota;
    std::ifstream{group / "cpu.cfs_period_us"} >> period;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

RAYTRAIN_INLINE auto cpu_quota(ControlGroups const& of) -> std::optional<double> {
  std::optional<double> least;
  std::ifstream file{of.groups};
  for (std::string line; std::getline(file, line);) {
    auto const first = line.find(':');
    auto const second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    auto const controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool const is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",cpu,") == std::string::npos) continue;
    auto const mount = is_v2 ? of.mounts : of.mounts / "cpu";
    // Every group above limits it, too. In a container, which may not see its path, the mount itself is its group.
    auto path = std::filesystem::path{line.substr(second + 1)}.relative_path();
    for (;; path = path.parent_path()) {
      if (auto const quota = quota_in(mount / path, is_v2)) least = std::min(least.value_or(*quota), *quota);
      if (path.empty()) break;
    }
  }
  return least;
}

RAYTRAIN_INLINE auto cores_within(std::size_t cores, double quota) noexcept -> std::size_t {
  if (quota >= static_cast<double>(cores)) return cores;
  return std::max<std::size_t>(static_cast<std::size_t>(std::ceil(quota)), 1);
}

}  // namespace raytrain::detail

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
  constexpr auto no_limit = std::numeric_limits<double>::infinity();
  return detail::cores_within(usable_cores().size(), detail::cpu_quota().value_or(no_limit));
}

RAYTRAIN_INLINE void bind_to_cores(std::vector<int> const& cores) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (auto const core : cores) CPU_SET(core, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace raytrain
