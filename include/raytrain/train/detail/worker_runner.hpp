// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/launch/launcher.hpp>
#include <raytrain/train/detail/copy_exchange.hpp>
#include <raytrain/train/detail/prepared_datasets.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// Ends a process that the training function has forked and that comes out of it: the rest is the worker's to do.
class ChildEnd {
 public:
  explicit ChildEnd(WorkerLink const& link) : link_{link} {}
  ChildEnd(ChildEnd const&) = delete;
  auto operator=(ChildEnd const&) -> ChildEnd& = delete;
  ~ChildEnd();

 private:
  WorkerLink const& link_;
};

/// Builds the context, runs the training function in it, and returns whether a stop cut it short.
///
/// The others learn of the end before this worker's last checkpoint is written. After a failure or a stop their waits
/// throw `Stopped`; after a return their waits for this worker throw an error that names it.
template <class B, class Train>
auto run_training(B& backend, Train const& train, WorkerSetup setup) -> bool {
  auto const shared_group = setup.group;
  auto& group = *shared_group;
  auto const& link = setup.link;
  auto const rank = setup.link.placement().world_rank;
  try {
    exchange_copies(setup);
    prepare_datasets(setup);
    typename B::Context context = backend.make_context(std::move(setup));
    auto stopped = false;
    try {
      {
        ChildEnd const child_end{link};
        train(context);
      }
      group.leave(rank);
    } catch (Stopped const&) {
      stopped = true;
      group.abort();
    } catch (...) {
      group.abort();
      context.finish_after_failure();
      throw;
    }
    context.finish();
    return stopped || context.knew_of_stop() || link.aborted().stop_requested();
  } catch (...) {
    group.abort();
    throw;
  }
}

/// What a launcher runs on each worker's thread: tells the controller how the worker starts and ends.
void run_worker(Worker worker, std::shared_ptr<RunShared const> const& run,
                std::function<bool(WorkerSetup)> const& training) noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/worker_runner-inl.hpp>
#endif
