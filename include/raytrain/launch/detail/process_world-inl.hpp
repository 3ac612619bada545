// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/process_world.hpp>
#include <raytrain/launch/job.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

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

RAYTRAIN_INLINE auto make_process_group(WorldSize size, Begin& begin) -> std::shared_ptr<CollectiveGroup> {
  auto group = SharedMemoryGroup::create(size);
  begin.group = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(group->descriptor());
  begin.group_id = group->id();
  return group;
}

RAYTRAIN_INLINE auto process_world(Begin const& begin, Rank rank, WaitLimits limits) -> std::unique_ptr<JobWorld> {
  FileDescriptor const file{::open(begin.group.c_str(), O_RDWR | O_CLOEXEC)};
  if (!file.is_open()) {
    throw Error{Errc::io, "opening the workers' shared memory at " + begin.group,
                std::error_code{errno, std::generic_category()}.message(), "the system must have /proc"};
  }
  auto const group = SharedMemoryGroup::attach(file.get(), std::move(limits));
  if (group->id() != begin.group_id) {
    throw Error{Errc::worker_failed, "opening the workers' shared memory at " + begin.group,
                "it is that of another attempt"};
  }
  return std::make_unique<ProcessWorld>(group, rank);
}

}  // namespace raytrain::detail
