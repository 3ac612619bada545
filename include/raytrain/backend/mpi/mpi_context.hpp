// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include <raytrain/backend/mpi/array_checkpoint.hpp>
#include <raytrain/backend/mpi/element_array.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/train/train_context.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

namespace detail {
struct GroupOfContext;
}  // namespace detail

/// What a training function of `MpiBackend` receives: the same calls on threads and on ranks.
///
/// The functions below are for arrays and numbers, and group operations: every rank calls the same ones in the same
/// order, and all get the same bits. Of a number they return the result; an array they change.
///
/// `raytrain::communicator(ctx)`, of <raytrain/backend/mpi/communicator.hpp>, is for MPI calls of the program's own.
///
/// Threads: the worker's own only.
/// Errors:  every function: as `Collective`; `rank_mismatch` when another rank's array has another size or type.
class MpiContext : public TrainContext {
 public:
  explicit MpiContext(WorkerSetup setup) : MpiContext{setup.group, std::move(setup)} {}

  /// Gives every rank root's values: parameters before the first step.
  template <MutableElementArray R>
  void replicate(R&& values, Rank root = Rank{0}) {
    collective().broadcast(detail::span_of(values), root);
  }

  /// The mean over all ranks: gradients after every step, where all ranks have equally many samples. Integers round
  /// toward zero.
  template <MutableElementArray R>
  void average(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::average);
  }
  template <Element T>
  [[nodiscard]] auto average(T value) -> T {
    return reduced(value, ReduceOp::average);
  }

  /// Integers wrap around.
  template <MutableElementArray R>
  void sum(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::sum);
  }
  template <Element T>
  [[nodiscard]] auto sum(T value) -> T {
    return reduced(value, ReduceOp::sum);
  }

  /// A NaN on any rank is the result.
  template <MutableElementArray R>
  void min(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::min);
  }
  template <Element T>
  [[nodiscard]] auto min(T value) -> T {
    return reduced(value, ReduceOp::min);
  }

  /// A NaN on any rank is the result.
  template <MutableElementArray R>
  void max(R&& values) {
    collective().all_reduce(detail::span_of(values), ReduceOp::max);
  }
  template <Element T>
  [[nodiscard]] auto max(T value) -> T {
    return reduced(value, ReduceOp::max);
  }

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

  template <Element T>
  auto reduced(T value, ReduceOp op) -> T {
    collective().all_reduce(std::span<T>{&value, 1}, op);
    return value;
  }

  std::shared_ptr<CollectiveGroup> group_;
};

}  // namespace raytrain
