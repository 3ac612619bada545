// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

/// The cores of this process, and how workers share them.
class WorkerCores {
 public:
  /// `sharers`: the workers that may run on these cores, in this process and in others.
  WorkerCores(ScalingConfig const& scaling, std::uint32_t sharers);

  [[nodiscard]] auto cores() const noexcept -> std::vector<int> const& { return cores_; }

  /// Threads that a worker may use.
  [[nodiscard]] auto cpus() const noexcept -> int { return cpus_; }

  /// Names the calling thread after its worker, and binds it to the worker's cores if that is asked for.
  void take(Placement const& placement) const;

 private:
  bool pin_;
  std::vector<int> cores_;
  int cpus_ = 1;
};

/// Wanted are as many workers as this process's cores have room for, within what the settings allow.
[[nodiscard]] auto range_on_cores(ScalingConfig const& scaling) -> WorkerRange;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/worker_cores-inl.hpp>
#endif
