// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/worker_cores.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/thread_launcher.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

RAYTRAIN_INLINE ThreadLauncher::~ThreadLauncher() {
  if (leaves_workers_behind_) detail::ExitGuard::end_process_beside_others();
  end_threads();
}

RAYTRAIN_INLINE void ThreadLauncher::resize(WorldSize size) {
  end_threads();  // which use their cores
  size_ = size;
  cores_ = detail::WorkerCores{scaling_, size_.value};
}

RAYTRAIN_INLINE void ThreadLauncher::launch(WorkerLaunch what) {
  auto const collectives = made_collectives(std::move(what.limits));
  end_threads();
  links_.clear();
  for (std::uint32_t rank = 0; rank < size_.value; ++rank) {
    Placement const placement{.world_rank = Rank{rank},
                              .world_size = size_,
                              .local_rank = Rank{rank},
                              .local_world_size = size_,
                              .node_rank = Rank{0},
                              .process_workers = size_,
                              .cpus = cores_.cpus(),
                              .host_cpus = static_cast<int>(cores_.cores().size())};
    links_.push_back(std::make_unique<WorkerLink>(placement, what.queue, what.begin.attempt));
  }
  // Nobody runs before all threads exist, so that a thread that cannot be made leaves no worker behind.
  auto const latch = std::make_shared<StartLatch>();
  try {
    for (auto const& link : links_) {
      threads_.emplace_back([this, latch, main = what.main, collectives, worker = link.get()] {
        latch->open.wait(StartLatch::closed);
        if (latch->open == StartLatch::cancelled) return;
        cores_.take(worker->placement());
        main({*worker, collectives.group, [&] { return collectives.collective_of(worker->placement().world_rank); }});
      });
    }
  } catch (std::system_error const& error) {
    auto const started = threads_.size();
    latch->set(StartLatch::cancelled);
    end_threads();
    throw Error{Errc::worker_failed, "starting " + std::to_string(size_.value) + " worker threads",
                "the system gave " + std::to_string(started) + " of them (" + error.what() + ")",
                "lower ScalingConfig::num_workers or raise the limit on processes (ulimit -u)"};
  } catch (...) {
    latch->set(StartLatch::cancelled);
    end_threads();
    throw;
  }
  latch->set(StartLatch::opened);
}

RAYTRAIN_INLINE auto ThreadLauncher::made_collectives(WaitLimits limits) const -> Collectives {
  auto collectives = make_collectives_(size_, std::move(limits));
  if (collectives.group == nullptr || collectives.group->size() != size_ || !collectives.collective_of) {
    throw Error{Errc::invalid_config, "ScalingConfig::collectives",
                "must make a group of " + std::to_string(size_.value) +
                    " workers and what makes their collectives (got " +
                    (collectives.group == nullptr ? "no group"
                     : !collectives.collective_of ? "nothing that makes them"
                                                  : "a group of " + std::to_string(collectives.group->size().value)) +
                    ")",
                "return {group, [group](Rank rank) { ... }} with a group of as many as it is called with"};
  }
  return collectives;
}

RAYTRAIN_INLINE void ThreadLauncher::tell(ControllerMessage const& message) {
  for (auto const& link : links_) link->deliver(message);
}

RAYTRAIN_INLINE void ThreadLauncher::leave_workers_behind(std::vector<Rank> const&,
                                                          std::string const& exit_text) noexcept {
  leaves_workers_behind_ = true;
  detail::write_stderr(exit_text);
}

RAYTRAIN_INLINE auto in_one_thread(ScalingConfig scaling) -> ScalingConfig {
  auto const workers = scaling.world_size().value;
  scaling.resources_per_worker.cpus = detail::WorkerCores{scaling, workers}.cpus() * static_cast<int>(workers);
  if (scaling.use_gpu) scaling.resources_per_worker.gpus = detail::gpus_of(scaling) * workers;
  scaling.num_workers = 1;
  return scaling;
}

RAYTRAIN_INLINE void ThreadLauncher::StartLatch::set(State state) {
  open = state;
  open.notify_all();
}

}  // namespace raytrain
