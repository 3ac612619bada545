// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/shard_turn.hpp>

namespace raytrain::detail {

/// A step of one model with virtual shards: makes of the backwards of all turns what the one backward of a step makes
/// otherwise.
///
/// Gradients are added to each other in the order of the shards, on rank 0, and the program sees them when the step is
/// complete; those of steps before that it has kept come first. What a backward of one batch adds up is kept apart from
/// what another backward of the same batch does, so that the order does not depend on who computes what. Each batch
/// begins with the buffers that the model had before the step, and those of shard 0 are what the step leaves.
///
/// Threads: the worker's.
class ShardStep {
 public:
  /// `buffers`: of the model. The others outlive it.
  ShardStep(GradientArena& arena, Collective& collective, std::vector<at::Tensor> buffers)
      : arena_{arena}, collective_{collective}, buffers_{std::move(buffers)} {}

  /// Before the program sees the batch of this turn; again, where it takes batches of several datasets side by side.
  void begin_turn(ShardTurn turn);

  /// Whether some shards' gradients are there, and others' not.
  [[nodiscard]] auto is_within_step() const noexcept -> bool { return is_within_step_; }

  /// Before the first gradient of a backward.
  ///
  /// Errors: `invalid_call` without a batch, and when this batch has more backwards than the first one of the step.
  void begin_backward();

  /// After the last one. True when the step is complete: gradients are the mean over all shards, buffers those of
  /// shard 0 on rank 0.
  ///
  /// `parameters`: a digest of them. Errors: `invalid_call` when they have changed within a step; as `Collective`.
  auto end_backward(std::uint64_t parameters) -> bool;

 private:
  /// The arena's arrays.
  using Sum = std::vector<std::vector<std::byte>>;

  /// The backwards of this turn before are to be added to those of other turns later, if there are any.
  void change_sum();
  void save(Sum& sum);
  void load(Sum const& sum);

  [[nodiscard]] auto copy_of_buffers() const -> std::vector<at::Tensor>;
  void set_buffers(std::vector<at::Tensor> const& values) const;

  GradientArena& arena_;
  Collective& collective_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> buffers_before_;      ///< The step; empty where that has one turn.
  std::vector<at::Tensor> buffers_of_shard_0_;  ///< On rank 0, from its second turn on.
  std::optional<ShardTurn> turn_;
  std::size_t backward_ = 0;         ///< Of this turn, from 0.
  std::vector<Sum> sums_;            ///< By backward, on rank 0. The one that the arena holds is not kept here.
  std::optional<std::size_t> held_;  ///< Of which backward the arena holds the sum of the turns before.
  std::size_t backwards_ = 0;        ///< Of the step's first turn.
  std::uint64_t parameters_ = 0;     ///< Digest, in the step's first backward.
  bool is_within_step_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/shard_step-inl.hpp>
#endif
