// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include <raytrain/backend/torch/gradient_exchange.hpp>

namespace raytrain {

/// How a model that `TorchContext::prepare_model` prepares is trained. The same on every rank.
struct ModelOptions {
  /// Averages the gradients; null: they are summed as they are, in rank order, by one operation for each of their
  /// types. Made by each worker for each model, as of `compressed(Compression::bf16)`.
  std::shared_ptr<GradientExchange> exchange{};
  /// How many bytes of gradients `exchange` gets at a time: a bucket ends behind the first parameter with which it has
  /// so many, or where the type changes. At least 1.
  std::size_t bucket_bytes = std::size_t{25} << 20U;

  /// Errors: `invalid_config` for a field that is out of range.
  void validate() const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/model_options-inl.hpp>
#endif
