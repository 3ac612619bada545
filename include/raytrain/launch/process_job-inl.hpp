// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/process_world.hpp>
#include <raytrain/launch/detail/rank_variables.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/launch/process_job.hpp>
#include <raytrain/launch/rank_job.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto place_process(Rank rank, WorldSize size, WorkerCores const& cores) -> Placement {
  return {.world_rank = rank,
          .world_size = size,
          .local_rank = rank,
          .local_world_size = size,
          .node_rank = Rank{0},
          .cpus = cores.cpus(),
          .host_cpus = static_cast<int>(cores.cores().size())};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE ProcessJob::ProcessJob(detail::WorkerStart const& start, Options options)
    : options_{std::move(options)} {
  cores_.emplace(options_.scaling, start.size.value);
  placement_ = detail::place_process(start.rank, start.size, *cores_);
}

RAYTRAIN_INLINE void ProcessJob::prepare(Begin const& begin) {
  auto const difference =
      detail::difference_of(options_.settings, begin.settings, "in the program that has started it");
  if (!difference.empty()) {
    throw Error{Errc::invalid_config, "comparing this run's settings", difference,
                "let main come to the same fit() in each worker process as in the program itself"};
  }
  if (begin.world_size != size()) {
    cores_.emplace(options_.scaling, begin.world_size.value);
    placement_ = detail::place_process(rank(), begin.world_size, *cores_);
    detail::set_rank_variables(placement_);
  }
  renew_world([&] {
    return detail::process_world(begin, rank(), {.timeout = options_.collective_timeout, .on_warning = on_warning()});
  });
}

}  // namespace raytrain
