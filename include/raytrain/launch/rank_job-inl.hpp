// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/launch/rank_job.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto open_rank_job_of_program() -> OpenRankJob {
  if (open_rank_job != nullptr) return open_rank_job;
  auto const environment = job_environment();
  throw Error{Errc::invalid_config, "ScalingConfig::launch",
              (environment ? "this process is one of " + std::to_string(environment->size.value) + " that " +
                                 environment->launcher + " has started, and the program"
                           : std::string{"Launch::ranks is asked for, and the program"}) +
                  " was built without ranks",
              "write #include <raytrain/launch/ranks.hpp> beside main and build with pkg-config raytrain-mpi; or "
              "Launch::threads, to train in each process by itself"};
}

}  // namespace raytrain::detail
