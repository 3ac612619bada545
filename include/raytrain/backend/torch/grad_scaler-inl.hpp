// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/backend/torch/grad_scaler.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// What grad_scaler.json holds.
struct StoredScaler {
  std::string precision;
  double scale{};
  std::int64_t clean_steps{};
  std::int64_t skipped_steps{};
  std::int64_t skipped_in_a_row{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(precision), CEREAL_NVP(scale), CEREAL_NVP(clean_steps), CEREAL_NVP(skipped_steps),
      CEREAL_NVP(skipped_in_a_row));
  }
};

/// Gradients on GPUs, for which the program waits once, and not for each.
class GpuGradients {
 public:
  void add(at::Tensor const& gradient) {
    groups_[{gradient.device().index(), gradient.scalar_type()}].push_back(gradient);
  }

  /// Whether all are finite, divided by the scale.
  [[nodiscard]] auto unscale(double scale) const -> bool {
    std::vector<at::Tensor> found;  // of each group 1, or 0 if all are finite
    for (auto const& [place, gradients] : groups_) {
      if (scale != 1) at::_foreach_mul_(gradients, 1 / scale);
      auto const options = gradients.front().options().dtype(at::kFloat);
      found.push_back(at::zeros({1}, options));
      at::_amp_foreach_non_finite_check_and_unscale_(gradients, found.back(), at::ones({1}, options));
    }
    if (found.empty()) return true;
    for (auto& each : found) each = each.to(found.front().device(), /*non_blocking=*/true);
    return at::cat(found).max().item<float>() == 0;
  }

 private:
  std::map<std::pair<c10::DeviceIndex, at::ScalarType>, std::vector<at::Tensor>> groups_;
};

RAYTRAIN_TORCH_INLINE void add_scaler(Metrics& metrics, ScalerState const& state) {
  if (!metrics.contains("loss_scale")) metrics.set("loss_scale", state.scale);
  if (!metrics.contains("skipped_steps")) metrics.set("skipped_steps", state.skipped_steps);
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE void GradScalerConfig::validate() const {
  auto const require = [](bool is_right, char const* field, char const* range, auto value) {
    if (is_right) return;
    throw Error{Errc::invalid_config, std::string{"GradScalerConfig::"} + field,
                fmt::format("must be {} (got {})", range, value), "set it to a number in that range"};
  };
  require(init_scale > 0 && std::isfinite(init_scale), "init_scale", "finite and above 0", init_scale);
  require(growth_factor >= 1 && std::isfinite(growth_factor), "growth_factor", "finite and at least 1", growth_factor);
  require(backoff_factor > 0 && backoff_factor <= 1, "backoff_factor", "above 0 and at most 1", backoff_factor);
  require(growth_interval >= 1, "growth_interval", "at least 1", growth_interval);
  require(max_skipped_in_a_row >= 0, "max_skipped_in_a_row", "at least 0", max_skipped_in_a_row);
}

RAYTRAIN_TORCH_INLINE GradScaler::GradScaler(Precision precision, GradScalerConfig config)
    : precision_{precision}, config_{config} {
  config_.validate();
  if (precision_ == Precision::fp16) state_->scale = config_.init_scale;
}

RAYTRAIN_TORCH_INLINE auto GradScaler::scale(at::Tensor const& loss) const -> at::Tensor {
  return state_->scale == 1 ? loss : loss * state_->scale;
}

RAYTRAIN_TORCH_INLINE void GradScaler::unscale(torch::optim::Optimizer& optimizer) {
  if (find(optimizer) != nullptr) {
    throw Error{Errc::invalid_call, "GradScaler::unscale",
                "this optimizer was unscaled or stepped since the last update()", "call update() behind each step()"};
  }
  torch::NoGradGuard const no_grad;
  auto is_finite = true;
  detail::GpuGradients on_gpus;
  std::unordered_set<c10::TensorImpl const*> known;  // one that two modules have registered is listed twice
  for (auto const& group : optimizer.param_groups()) {
    for (auto const& parameter : group.params()) {
      auto gradient = parameter.grad();
      if (!gradient.defined() || gradient.numel() == 0) continue;
      if (!known.insert(parameter.unsafeGetTensorImpl()).second) continue;
      if (gradient.is_cuda() && !gradient.is_sparse()) {
        on_gpus.add(gradient);
        continue;
      }
      if (state_->scale != 1) gradient.mul_(1 / state_->scale);
      is_finite = is_finite && std::isfinite(gradient.norm(std::numeric_limits<double>::infinity()).item<double>());
    }
  }
  is_finite = on_gpus.unscale(state_->scale) && is_finite;
  optimizers_.push_back({&optimizer, is_finite, false});
}

RAYTRAIN_TORCH_INLINE auto GradScaler::step(torch::optim::Optimizer& optimizer) -> bool {
  if (find(optimizer) == nullptr) unscale(optimizer);
  auto& stepped = *find(optimizer);
  if (stepped.is_stepped) {
    throw Error{Errc::invalid_call, "GradScaler::step", "this optimizer was stepped since the last update()",
                "call update() behind each step()"};
  }
  stepped.is_stepped = true;
  if (stepped.is_finite) optimizer.step();
  return stepped.is_finite;
}

RAYTRAIN_TORCH_INLINE void GradScaler::update() {
  if (std::ranges::none_of(optimizers_, &Stepped::is_stepped)) {
    throw Error{Errc::invalid_call, "GradScaler::update", "no optimizer was stepped since the last one",
                "call step(optimizer) before"};
  }
  auto const all_finite = std::ranges::all_of(optimizers_, &Stepped::is_finite);
  optimizers_.clear();
  auto& [scale, clean_steps, skipped_steps, skipped_in_a_row] = *state_;
  auto const is_fixed = precision_ != Precision::fp16;
  if (all_finite) {
    skipped_in_a_row = 0;
    if (is_fixed || ++clean_steps < config_.growth_interval) return;
    clean_steps = 0;
    if (auto const grown = scale * config_.growth_factor; grown <= std::numeric_limits<float>::max()) scale = grown;
    return;
  }
  clean_steps = 0;
  ++skipped_steps;
  ++skipped_in_a_row;
  if (auto const reduced = scale * config_.backoff_factor; !is_fixed && reduced >= std::numeric_limits<float>::min()) {
    scale = reduced;
  }
  if (config_.max_skipped_in_a_row == 0 || skipped_in_a_row <= config_.max_skipped_in_a_row) return;
  throw NotRetryable{
      "GradScaler::update",
      fmt::format("{} steps in a row were skipped, since their gradients were not finite (loss scale {}, {})",
                  skipped_in_a_row, scale, to_string(precision_)),
      "look for the operation that makes an infinity or a NaN, or take a lower learning rate"};
}

RAYTRAIN_TORCH_INLINE auto GradScaler::find(torch::optim::Optimizer const& optimizer) -> Stepped* {
  auto const found = std::ranges::find(optimizers_, &optimizer, &Stepped::optimizer);
  return found == optimizers_.end() ? nullptr : &*found;
}

RAYTRAIN_TORCH_INLINE void GradScaler::add_to(CheckpointDraft& draft, std::string const& file) const {
  draft.add(file,
            write_json(detail::StoredScaler{std::string{to_string(precision_)}, state_->scale, state_->clean_steps,
                                            state_->skipped_steps, state_->skipped_in_a_row}));
}

RAYTRAIN_TORCH_INLINE auto GradScaler::load_from(Checkpoint const& checkpoint, std::string const& file) -> std::string {
  auto const bytes = checkpoint.read(file);
  auto const path = checkpoint.location() + "/" + file;
  auto const stored = read_json<detail::StoredScaler>(text_of(bytes), path);
  if (!(stored.scale > 0) || std::isinf(stored.scale) || stored.clean_steps < 0 || stored.skipped_steps < 0 ||
      stored.skipped_in_a_row < 0) {
    throw Error{Errc::invalid_data, "reading " + path, "it holds a scale or a count that a GradScaler cannot have",
                "go on from another checkpoint"};
  }
  auto const is_same = stored.precision == to_string(precision_);
  *state_ = {is_same ? stored.scale : loss_scale(), is_same ? stored.clean_steps : 0, stored.skipped_steps,
             stored.skipped_in_a_row};
  if (is_same) return {};
  return fmt::format("the training goes on in {}; its checkpoint's was in {}", to_string(precision_), stored.precision);
}

}  // namespace raytrain
