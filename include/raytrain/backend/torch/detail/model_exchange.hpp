// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// What a model's `ModelOptions` say of its exchange, which is this model's alone as long as this lives.
///
/// Threads: the worker's.
class ModelExchange {
 public:
  /// Without an exchange of the program's.
  ModelExchange() = default;

  /// Errors: `invalid_call` where another model, or another worker, uses it.
  ModelExchange(ModelOptions const& options, WorldSize world);
  ModelExchange(ModelExchange&&) noexcept = default;
  auto operator=(ModelExchange&&) -> ModelExchange& = delete;
  ~ModelExchange();

  /// Whether the program gives one.
  explicit operator bool() const noexcept { return exchange_ != nullptr; }

  [[nodiscard]] auto averages() const -> bool { return exchange_ == nullptr || exchange_->averages(); }

  /// A group operation. Errors: `rank_mismatch` on every rank when one has other options, with both.
  void check_same_on_all_ranks(Collective& collective) const;

  /// Off in a world of one, and where it is to be measured with an exchange that does not allow it.
  [[nodiscard]] auto overlap() const -> Overlap;
  [[nodiscard]] auto bucket_bytes() const noexcept -> std::size_t { return bucket_bytes_; }
  [[nodiscard]] auto broadcasts_buffers() const noexcept -> bool { return broadcasts_buffers_; }

  /// Averages the gradients of one bucket, of so many: by the program's exchange, or as they are.
  ///
  /// Errors: what that throws, and the collective.
  void average(GradientBucket const& bucket, Collective& collective) const;

  struct Collectives {
    Collective& of_counts;     ///< Of CPU memory.
    Collective& of_gradients;  ///< Of their device.
  };

  /// Averages the arena's gradients bucket by bucket, and the counts as they are.
  ///
  /// Errors: as `GradientArena::gather`, and what the exchange throws.
  void average(GradientArena& arena, Collectives collectives) const;

 private:
  [[nodiscard]] auto description() const -> std::string;

  std::shared_ptr<GradientExchange> exchange_;
  std::size_t bucket_bytes_ = 0;
  Overlap overlap_ = Overlap::off;
  bool broadcasts_buffers_ = true;
  WorldSize world_{1};
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/model_exchange-inl.hpp>
#endif
