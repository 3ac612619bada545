// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/checkpointed.hpp>
#include <raytrain/core/metrics.hpp>

namespace raytrain {

struct GradScalerConfig {
  double init_scale = 65'536;     ///< Factor of the first losses; above 0.
  double growth_factor = 2;       ///< Of the scale, after `growth_interval` steps; 1 or more, finite.
  double backoff_factor = 0.5;    ///< Of the scale, after a step that is skipped; above 0, at most 1.
  int growth_interval = 2'000;    ///< Steps in a row that are not skipped, after which the scale grows; from 1.
  int max_skipped_in_a_row = 50;  ///< One more of them ends the run; 0: any number.

  /// Errors: `invalid_config`, naming the field, its value and what to write instead.
  void validate() const;
};

namespace detail {

/// How a `GradScaler` stands.
struct ScalerState {
  double scale = 1;
  std::int64_t clean_steps = 0;  ///< In a row, since the scale has changed.
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_in_a_row = 0;
};

/// Adds "loss_scale" and "skipped_steps" to metrics, but for those whose names are there.
void add_scaler(Metrics& metrics, ScalerState const& state);

}  // namespace detail

/// Leaves out each step whose gradients are not finite, on all workers alike, since averaged gradients are the same on
/// all of them (of a `LocalModel`, each worker by itself), and with `Precision::fp16` scales losses so
/// that small gradients do not become 0:
///
///     scaler.scale(loss).backward();
///     scaler.step(optimizer);
///     scaler.update();
///
/// With `fp32` and `bf16` the scale is 1 and stays so. With `fp16` it is as large as the gradients let it be: a step
/// that is skipped reduces it, many others in a row let it grow. A scale that is a power of two changes no bit of what
/// a training in float reaches.
///
/// `save(model, optimizer, scaler)` stores it, and `TorchContext::restore` goes on with it. From then on reports gain
/// the metrics "skipped_steps" (since the run's beginning) and "loss_scale", unless they have them.
///
/// Source: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018; PyTorch's torch.amp.GradScaler.
class GradScaler {
 public:
  static constexpr auto file_name = "grad_scaler.json";

  /// Errors: as `GradScalerConfig::validate`.
  explicit GradScaler(Precision precision, GradScalerConfig config = {});
  GradScaler(GradScaler const&) = delete;
  auto operator=(GradScaler const&) -> GradScaler& = delete;

  /// The loss, times the scale.
  [[nodiscard]] auto scale(at::Tensor const& loss) const -> at::Tensor;

  /// Divides the optimizer's gradients by the scale, for who clips or looks at them before `step`, which does it
  /// otherwise.
  ///
  /// Errors: `invalid_call` for an optimizer that was unscaled or stepped since the last `update`.
  /// Cost:   on a GPU the program waits for it once.
  void unscale(torch::optim::Optimizer& optimizer);

  /// Steps the optimizer, unless one of its gradients has an infinity or a NaN; returns whether it did. A group
  /// operation where the optimizer's step is one.
  ///
  /// Errors: `invalid_call` for an optimizer that was stepped since the last `update`.
  auto step(torch::optim::Optimizer& optimizer) -> bool;

  /// Behind the steps of all optimizers whose loss it was: counts, and sets the scale of the next loss. A step that one
  /// of them has skipped is a skipped one.
  ///
  /// Errors: `invalid_call` where no optimizer was stepped since the last one; `NotRetryable` for more skipped steps in
  ///         a row than `max_skipped_in_a_row`: such a training learns nothing any more, and would come there again.
  void update();

  /// Factor of the next loss.
  [[nodiscard]] auto loss_scale() const noexcept -> double { return state_->scale; }
  /// Before a resume, too.
  [[nodiscard]] auto skipped_steps() const noexcept -> std::int64_t { return state_->skipped_steps; }
  /// For who does not know whether the scaler still lives.
  [[nodiscard]] auto followed_state() const noexcept -> std::weak_ptr<detail::ScalerState const> { return state_; }

  /// Writes grad_scaler.json, or a file of another name.
  void add_to(CheckpointDraft& draft, std::string const& file = file_name) const;

  /// Goes on from what `add_to` has written; the settings are always those of this program, and so is the scale where
  /// the precision is another one. Returns that this is so.
  ///
  /// Errors: those of `Checkpoint::read`; `invalid_data` for a file of something else.
  auto load_from(Checkpoint const& checkpoint, std::string const& file = file_name) -> std::string;

 private:
  struct Stepped {
    torch::optim::Optimizer const* optimizer;
    bool is_finite;
    bool is_stepped;
  };

  [[nodiscard]] auto find(torch::optim::Optimizer const& optimizer) -> Stepped*;

  Precision precision_;
  GradScalerConfig config_;
  std::shared_ptr<detail::ScalerState> state_ = std::make_shared<detail::ScalerState>();
  std::vector<Stepped> optimizers_;  ///< Since the last `update`.
};

static_assert(Checkpointed<GradScaler>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/grad_scaler-inl.hpp>
#endif
