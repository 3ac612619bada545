// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/launch/worker_link.hpp>

namespace raytrain {

/// What a launcher gives to each worker.
struct Worker {
  WorkerLink& link;
  std::shared_ptr<CollectiveGroup> group;  ///< Its collective's; never null.
  std::unique_ptr<Collective> collective;  ///< Never null.
};

/// What every worker runs, on its own thread. Must not throw: a failure is a `Failed` message.
using WorkerMain = std::function<void(Worker)>;

}  // namespace raytrain
