// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace raytrain::detail {

/// What one control group allows for; none if it says nothing.
[[nodiscard]] auto quota_in(std::filesystem::path const& group, bool is_v2) -> std::optional<double>;

/// Cores' worth of time that a process's control groups let it have, all of its cores together: what a container was
/// given by `docker --cpus` or Kubernetes' limits. None where there is no limit.
///
/// `groups`: as /proc/self/cgroup has them; `mounts`: where the hierarchies are mounted.
///
/// Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst of Linux.
[[nodiscard]] auto cpu_quota(std::filesystem::path const& groups = "/proc/self/cgroup",
                             std::filesystem::path const& mounts = "/sys/fs/cgroup") -> std::optional<double>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/detail/cpu_quota-inl.hpp>
#endif
