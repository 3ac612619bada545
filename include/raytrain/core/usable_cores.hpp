// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

namespace raytrain::detail {

/// What one control group allows for; none if it says nothing.
[[nodiscard]] auto quota_in(std::filesystem::path const& group, bool is_v2) -> std::optional<double>;

/// Where a process's control groups are found.
struct ControlGroups {
  std::filesystem::path groups = "/proc/self/cgroup";  ///< The file that names them.
  std::filesystem::path mounts = "/sys/fs/cgroup";     ///< Where their hierarchies are mounted.
};

/// Cores' worth of time that a process's control groups let it have, all of its cores together: what a container was
/// given by `docker --cpus` or Kubernetes' limits. None where there is no limit.
///
/// Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst of Linux.
[[nodiscard]] auto cpu_quota(ControlGroups const& of = {}) -> std::optional<double>;

/// How many of so many cores can be used at once with `quota` cores' worth of time, infinity for no limit: at least
/// one.
[[nodiscard]] auto cores_within(std::size_t cores, double quota) noexcept -> std::size_t;

}  // namespace raytrain::detail

namespace raytrain {

/// Numbers of the cores that the calling thread may run on, at least one: those of the process, if it is not bound.
///
/// Where there are more of them than the system's set has room for, those of the machine.
[[nodiscard]] auto usable_cores() -> std::vector<int>;

/// How many cores' worth of time the calling thread's process may use at once: those of `usable_cores`, or fewer where
/// a control group allows for less, as that of a container does.
[[nodiscard]] auto usable_core_count() -> std::size_t;

/// Lets the calling thread, and those that it starts from now on, run on these cores alone. Numbers that no core has
/// are ignored, and where the system refuses everything stays as it was.
void bind_to_cores(std::vector<int> const& cores) noexcept;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/usable_cores-inl.hpp>
#endif
