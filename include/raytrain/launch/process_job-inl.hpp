// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
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

/// The workers of one supervisor, who share memory.
class ProcessWorld final : public JobWorld {
 public:
  ProcessWorld(std::shared_ptr<SharedMemoryGroup> const& shared, Rank rank) {
    group = shared;
    collective = std::make_unique<SharedMemoryCollective>(shared, rank);
  }

  [[nodiscard]] auto first_rank_of_host() const noexcept -> Rank override { return Rank{0}; }
  void abandon() noexcept override {}
};

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
  renew_world([&]() -> std::unique_ptr<JobWorld> {
    FileDescriptor const file{::open(begin.group.c_str(), O_RDWR | O_CLOEXEC)};
    if (!file.is_open()) {
      throw Error{Errc::io, "opening the workers' shared memory at " + begin.group,
                  std::error_code{errno, std::generic_category()}.message(), "the system must have /proc"};
    }
    auto const group =
        SharedMemoryGroup::attach(file.get(), {.timeout = options_.collective_timeout, .on_warning = on_warning()});
    if (group->id() != begin.group_id) {
      throw Error{Errc::worker_failed, "opening the workers' shared memory at " + begin.group,
                  "it is that of another attempt"};
    }
    return std::make_unique<detail::ProcessWorld>(group, rank());
  });
}

}  // namespace raytrain
