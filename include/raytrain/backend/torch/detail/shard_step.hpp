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
#include <raytrain/core/shard_position.hpp>

namespace raytrain::detail {

/// A step of one model with virtual shards: makes of the backwards of all turns what the one backward of a step makes
/// otherwise.
///
/// Gradients are added to each other in the order of the shards, on rank 0, and the program sees them when the step is
/// complete; those of steps before that it has kept come first. What a backward of one batch adds up is kept apart from
/// what another backward of the same batch does, so that the order does not depend on who computes what. Each batch
/// begins with the buffers that the model had before the step, and after each of its backwards has those that shard 0
/// had after the same one.
///
/// Threads: the worker's.
class ShardStep {
 public:
  /// `buffers`: of the model. The others outlive it.
  ShardStep(GradientArena& arena, Collective& collective, std::vector<at::Tensor> buffers)
      : arena_{arena}, collective_{collective}, buffers_{std::move(buffers)} {}

  /// Before the program sees the batch of this turn.
  ///
  /// Errors: `invalid_call` when the batch before had fewer backwards than the first one of its step.
  void begin_turn(ShardTurn turn);

  /// After the last batch of an epoch. Errors: as `begin_turn`.
  void end_turns();

  /// Whether some shards' gradients are there, and others' not.
  [[nodiscard]] auto is_within_step() const noexcept -> bool { return is_within_step_; }

  /// Before the first gradient of a backward of any model, with a digest of this one's parameters.
  ///
  /// Errors: `invalid_call` when they have changed since the step's first backward.
  void check_parameters(std::uint64_t parameters) const;

  /// Before the first gradient of a backward, with that digest.
  ///
  /// Errors: `invalid_call` without a batch, and when this batch has more backwards than the first one of the step.
  void begin_backward(std::uint64_t parameters);

  /// After the last one. True when the step is complete: gradients are the mean over all shards.
  ///
  /// Errors: as `Collective`.
  auto end_backward() -> bool;

  /// Afterwards, in a step of several turns: whether the buffers of rank 0, whose shard it is, are to be sent to all,
  /// and then kept by `keep_buffers`. Otherwise `set_kept_buffers` puts those in place that were kept.
  [[nodiscard]] auto is_in_first_turn() const noexcept -> bool { return turn_->index == 0; }
  [[nodiscard]] auto has_several_turns() const noexcept -> bool { return turn_->count > 1; }
  void keep_buffers();
  void set_kept_buffers() const { set_buffers(buffers_after_.at(backwards_of_turn_ - 1)); }

 private:
  /// Those of the arena.
  using Arrays = std::vector<std::vector<std::byte>>;

  [[nodiscard]] auto is_rank_0() const noexcept -> bool { return collective_.rank() == Rank{0}; }

  void check_backwards() const;

  /// Puts into the arena the sum that this backward has over the turns before, on rank 0.
  void swap_in_sum();
  void save(Arrays& sum);
  void load(Arrays const& sum);

  [[nodiscard]] auto copy_of_buffers() const -> std::vector<at::Tensor>;
  void set_buffers(std::vector<at::Tensor> const& values) const;

  GradientArena& arena_;
  Collective& collective_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> buffers_before_;              ///< The step; empty where that has one turn.
  std::vector<at::Tensor> buffers_of_shard_0_;          ///< On rank 0, from its second turn on.
  std::vector<std::vector<at::Tensor>> buffers_after_;  ///< Each backward of shard 0.
  std::optional<ShardTurn> turn_;
  std::size_t backwards_of_turn_ = 0;        ///< So far.
  std::size_t backwards_per_turn_ = 0;       ///< What the step's first turn had.
  std::vector<Arrays> sums_;                 ///< By backward, on rank 0; not that which the arena holds.
  std::optional<std::size_t> sum_in_arena_;  ///< Of which backward the arena holds the sum of the turns before.
  std::uint64_t parameters_ = 0;             ///< Digest, in the step's first backward.
  bool is_within_step_ = false;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/shard_step-inl.hpp>
#endif
