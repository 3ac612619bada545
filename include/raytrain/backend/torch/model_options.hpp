// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <raytrain/backend/torch/gradient_exchange.hpp>

namespace raytrain {

/// When a model's gradients are exchanged.
enum class Overlap : std::uint8_t {
  off,       ///< When the backward has ended.
  on,        ///< In buckets, by a thread of raytrain's, while the backward computes the gradients of other buckets.
  measured,  ///< As is faster in the model's first backwards: see `ModelOptions::overlap`.
};

/// "off", "on", "measured".
[[nodiscard]] auto to_string(Overlap overlap) noexcept -> std::string_view;

/// Errors: `invalid_config` for another word than these, with the word.
[[nodiscard]] auto overlap_named(std::string_view name) -> Overlap;

/// How a model that `TorchContext::prepare_model` prepares is trained. The same on every rank. To train without
/// averaging gradients, use `TorchContext::prepare_local_model`.
struct ModelOptions {
  /// Averages the gradients; null: `Collective::all_reduce` does, by one operation for each of their
  /// types. Made by each worker for each model, as of `compressed(Compression::bf16)`.
  std::shared_ptr<GradientExchange> exchange{};
  /// How many bytes of gradients `exchange`, or `overlap`, has at a time: a bucket ends behind the first parameter with
  /// which it has so many, or where the type changes. At least 1.
  std::size_t bucket_bytes = std::size_t{1} << 20U;
  /// During backwards it pays where a network is between the workers, or each has a core that does not compute.
  /// `measured` looks at 14 backwards. Only where exchanges take more than a tenth of them, where workers are on
  /// several hosts or each has a spare core, and where the model has several buckets, it tries both ways in the next
  /// 24, of which rank 0 prints a line; all ranks keep the faster one. Nowhere else does it start a thread. On GPUs,
  /// where nobody can time exchanges without waiting, it is `off`, and so it is for what `on` refuses: an exchange that
  /// does not allow it, virtual shards, parameters in common with another prepared model, and MPI that is for one
  /// thread.
  ///
  /// What is chosen changes no bits. Between hosts with `Reduction::automatic` sums of buckets may differ from those of
  /// whole arrays, in their last bits: there `measured` has those of buckets either way, and `off` has the others. A
  /// program that catches what a backward throws and goes on, or later begins to run backwards within backwards, says
  /// `off`.
  Overlap overlap = Overlap::measured;
  /// Whether a backward leaves rank 0's buffers, as a BatchNorm's statistics, on every rank. Without, each worker keeps
  /// those of its own batches, and a step sends less; a checkpoint has rank 0's, with which all go on after a restart.
  bool broadcast_buffers = true;

  /// Errors: `invalid_config` for a field that is out of range, for an exchange that cannot overlap, and for what a run
  ///         of so many virtual shards decides by itself.
  void validate(std::uint32_t virtual_shards = 0) const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/model_options-inl.hpp>
#endif
