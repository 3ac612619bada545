// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <raytrain/backend/mpi/array_checkpoint.hpp>
#include <raytrain/backend/mpi/blocks_checkpoint.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/dataset_shard.hpp>
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

  /// Fills the arrays, and the position with the one that this rank has saved beside them, of whose epoch it returns
  /// the number. A checkpoint without positions gives the beginning of `first_epoch()`. With another number of workers,
  /// of which not all had taken equally many blocks, their epoch begins anew, of which rank 0 warns.
  ///
  /// Errors: as `load`; `invalid_data` for a position that cannot be read.
  [[nodiscard]] auto restore(BlocksPosition& position, std::initializer_list<NamedArray> arrays) -> int;

 private:
  friend struct detail::GroupOfContext;

  MpiContext(std::shared_ptr<CollectiveGroup> group, WorkerSetup setup)
      : TrainContext{std::move(setup)}, group_{std::move(group)} {}

  std::shared_ptr<CollectiveGroup> group_;
};

inline auto MpiContext::restore(BlocksPosition& position, std::initializer_list<NamedArray> arrays) -> int {
  auto const first = restore(arrays);
  auto const positions =
      checkpoint() && !begins_from_other_run() ? detail::read_positions(*checkpoint()) : std::vector<BlocksPosition>{};
  if (positions.size() == world_size().value) {
    position = positions[world_rank().value];
  } else if (positions.empty()) {
    position = {.epoch = first};
  } else if (std::ranges::count(positions, positions.front()) == std::ssize(positions)) {
    position = positions.front();
  } else {
    position = BlocksPosition::begin_of_epoch(positions);
    if (world_rank() == Rank{0}) warn(position.text_of_begin({.before = positions.size(), .now = world_size().value}));
  }
  return static_cast<int>(position.epoch);
}

}  // namespace raytrain
