// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <raytrain/core/detail/cpu_quota.hpp>
#include <raytrain/core/inline.hpp>

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

RAYTRAIN_INLINE auto cpu_quota(std::filesystem::path const& groups, std::filesystem::path const& mounts)
    -> std::optional<double> {
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
