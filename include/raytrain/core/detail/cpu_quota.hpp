// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace raytrain::detail {

/// What one control group allows for; none if it says nothing.
[[nodiscard]] inline auto quota_in(std::filesystem::path const& group, bool is_v2) -> std::optional<double> {
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

/// Cores' worth of time that a process's control groups let it have, all of its cores together: what a container was
/// given by `docker --cpus` or Kubernetes' limits. None where there is no limit.
///
/// `groups`: as /proc/self/cgroup has them; `mounts`: where the hierarchies are mounted.
///
/// Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst of Linux.
[[nodiscard]] inline auto cpu_quota(std::filesystem::path const& groups = "/proc/self/cgroup",
                                    std::filesystem::path const& mounts = "/sys/fs/cgroup") -> std::optional<double> {
  std::optional<double> least;
  std::ifstream file{groups};
  for (std::string line; std::getline(file, line);) {
    auto const first = line.find(':');
    auto const second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    auto const controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool const is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",cpu,") == std::string::npos) continue;
    auto const mount = is_v2 ? mounts : mounts / "cpu";
    // Every group above limits it, too. In a container, which may not see its path, the mount itself is its group.
    auto path = std::filesystem::path{line.substr(second + 1)}.relative_path();
    for (;; path = path.parent_path()) {
      if (auto const quota = quota_in(mount / path, is_v2)) least = std::min(least.value_or(*quota), *quota);
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace raytrain::detail
