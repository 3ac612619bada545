// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <utility>

#include <raytrain/backend/mpi/array_checkpoint.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

namespace detail {
struct GroupOfContext;
}  // namespace detail

/// What a training function of `MpiBackend` receives: the same calls on threads and on ranks.
///
/// `raytrain::communicator(ctx)`, of <raytrain/backend/mpi/communicator.hpp>, is for MPI calls of the program's own.
///
/// Threads: the worker's own only.
class MpiContext : public TrainContext {
 public:
  explicit MpiContext(WorkerSetup setup) : MpiContext{setup.group, std::move(setup)} {}

  /// Fills the arrays from the checkpoint that the run goes on from, in which `save` has put them: no group operation.
  /// Returns the epoch to begin with: 0 without a checkpoint, otherwise the one after the report's metric "epoch", or
  /// as many as there were reports when it has none.
  ///
  /// Errors: as `load`.
  [[nodiscard]] auto restore(std::initializer_list<NamedArray> arrays) -> int {
    if (!checkpoint()) return 0;
    load(*checkpoint(), arrays);
    auto const epoch = checkpoint()->metrics().number("epoch");
    return epoch ? static_cast<int>(*epoch) + 1 : static_cast<int>(checkpoint()->training_iteration());
  }

 private:
  friend struct detail::GroupOfContext;

  MpiContext(std::shared_ptr<CollectiveGroup> group, WorkerSetup setup)
      : TrainContext{std::move(setup)}, group_{std::move(group)} {}

  std::shared_ptr<CollectiveGroup> group_;
};

}  // namespace raytrain
