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
  /// Returns `first_epoch()`, the epoch to begin with: 0 also with the arrays of another run's checkpoint. Rank 0 warns
  /// where the checkpoint is within an epoch; a shard that is to go on there is restored before, or with the arrays.
  ///
  /// Errors: as `load`.
  [[nodiscard]] auto restore(std::initializer_list<NamedArray> arrays) -> int {
    if (checkpoint()) load(*checkpoint(), arrays);
    return epoch_without_position();
  }

  using TrainContext::restore;
  /// And lets the shard go on at the next sample, of whose epoch it returns the number.
  [[nodiscard]] auto restore(DatasetShard& shard, std::initializer_list<NamedArray> arrays) -> int {
    if (checkpoint()) load(*checkpoint(), arrays);
    return TrainContext::restore(shard);
  }

 private:
  friend struct detail::GroupOfContext;

  MpiContext(std::shared_ptr<CollectiveGroup> group, WorkerSetup setup)
      : TrainContext{std::move(setup)}, group_{std::move(group)} {}

  std::shared_ptr<CollectiveGroup> group_;
};

}  // namespace raytrain
