// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE WorkerCores::WorkerCores(ScalingConfig const& scaling, std::uint32_t sharers)
    : pin_{scaling.pin_cpus}, cores_{usable_cores()} {
  auto const most = std::max(sharers, static_cast<std::uint32_t>(scaling.virtual_shards));
  auto const share = static_cast<int>(usable_core_count() / most);
  cpus_ = scaling.resources_per_worker.cpus > 0 ? scaling.resources_per_worker.cpus : std::max(1, share);
}

RAYTRAIN_INLINE void WorkerCores::take(Placement const& placement) const {
  pthread_setname_np(pthread_self(), ("worker-" + std::to_string(placement.world_rank.value)).c_str());
  if (!pin_) return;
  std::vector<int> own;
  auto const first = placement.local_rank.value * static_cast<std::size_t>(cpus_);
  for (std::size_t cpu = 0; cpu < static_cast<std::size_t>(cpus_); ++cpu) {
    own.push_back(cores_[(first + cpu) % cores_.size()]);
  }
  bind_to_cores(own);
}

RAYTRAIN_INLINE auto range_on_cores(ScalingConfig const& scaling) -> WorkerRange {
  auto const cores = static_cast<std::int64_t>(usable_core_count()) / std::max(1, scaling.resources_per_worker.cpus);
  auto const fewest = scaling.num_workers.fewest_or(1);
  auto const most = scaling.num_workers.most_or(1);
  auto const wanted = std::clamp(cores, fewest, most);
  return {
      {static_cast<std::uint32_t>(fewest)}, {static_cast<std::uint32_t>(most)}, {static_cast<std::uint32_t>(wanted)}};
}

}  // namespace raytrain::detail
