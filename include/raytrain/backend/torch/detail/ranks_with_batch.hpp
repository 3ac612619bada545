// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <raytrain/backend/torch/detail/accumulation_window.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Which ranks have a batch in the step at hand, as `TorchContext::join` asks all of them.
///
/// A rank's gradients times `factor`, averaged over all ranks, are averages over the ranks that have a batch. So what a
/// `GradientExchange` keeps for the next step is in the same measure in each.
class RanksWithBatch {
 public:
  /// Before `ask`. Errors: `invalid_call` with virtual shards, and within a window of several batches.
  static void check_may_ask(std::uint32_t virtual_shards, AccumulationWindow const& window);

  /// Whether any rank has one. A group operation.
  ///
  /// Errors: of `Collective`.
  auto ask(Collective& collective, bool has_batch) -> bool;

  /// Whether ranks have been asked, and one has a batch.
  [[nodiscard]] auto is_known() const noexcept -> bool { return own_.has_value(); }
  /// World size / ranks with a batch; 1 where nobody has asked, and when no rank had one.
  [[nodiscard]] auto factor() const noexcept -> double { return factor_; }
  /// The lowest rank with a batch; rank 0 where nobody has asked.
  [[nodiscard]] auto first() const noexcept -> Rank { return first_; }

  /// Before a backward of a model. Errors: `invalid_call` where this rank has said that it has no batch.
  void check_backward(std::uint16_t model) const;
  /// Before the backward of a rank without a batch. Errors: `invalid_call` unless this rank has said that it has none.
  void check_shadow_backward() const;

 private:
  std::uint32_t calls_ = 0;
  std::optional<bool> own_;  ///< Whether this rank has one; none where nobody has asked.
  double factor_ = 1;
  Rank first_{};
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/ranks_with_batch-inl.hpp>
#endif
