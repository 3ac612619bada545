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
  /// Averages the gradients; null: `Collective::all_reduce` does, by one operation for each element type, or for each
  /// bucket where `overlap` cuts them into buckets. Made by each worker for each model, as of
  /// `compressed(Compression::bf16)`.
  std::shared_ptr<GradientExchange> exchange{};
  /// How many bytes of gradients `exchange`, or `overlap`, has at a time: a bucket ends behind the first parameter with
  /// which it has so many, or where the type changes. At least 1.
  std::size_t bucket_bytes = std::size_t{1} << 20U;
  /// Whether gradients are exchanged during backwards. That pays where a network lies between the workers, or where
  /// each has a core that does not compute.
  ///
  /// `measured` first times 14 backwards. It goes on only if exchanges take more than a tenth of them, and if workers
  /// are on several hosts or each has a spare core. Then it tries both ways in the next 24; all ranks keep the faster
  /// one, and rank 0 prints it. Otherwise it starts no thread. It is `off` for a model of one bucket; on GPUs, where
  /// nobody can time exchanges without waiting; and for what `on` refuses: an exchange that does not allow it, virtual
  /// shards, parameters in common with another prepared model, and MPI for one thread.
  ///
  /// The measured choice changes no bits. On CPUs of several hosts with `Reduction::automatic`, `measured` sums buckets
  /// whichever way it chooses, and `off` sums whole arrays: their last bits may differ.
  ///
  /// Set `off` if the program catches what a backward throws and goes on, or begins later to run backwards within
  /// backwards.
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
