// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/step_times.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/report_fields.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto StepTimer::begin(Phase phase) noexcept -> Phase {
  if (std::this_thread::get_id() != owner_) return phase;
  if (std::exchange(is_handed_out_, false) && phase == Phase::data) return std::exchange(phase_, phase);
  auto const now = clock_.now();
  spent_[static_cast<std::size_t>(phase_)] += now - std::exchange(since_, now);
  return std::exchange(phase_, phase);
}

RAYTRAIN_TORCH_INLINE void StepTimer::ask() noexcept {
  if (std::this_thread::get_id() != owner_) return;
  is_handed_out_ = false;
  begin(Phase::data);
}

RAYTRAIN_TORCH_INLINE void StepTimer::hand_out(std::size_t samples) noexcept {
  if (std::this_thread::get_id() != owner_) return;
  if (phase_ != Phase::data) begin(Phase::forward);
  phase_ = Phase::forward;
  is_handed_out_ = true;
  of_batch_ = samples;
}

RAYTRAIN_TORCH_INLINE void StepTimer::end_batches() noexcept {
  if (std::this_thread::get_id() == owner_ && phase_ == Phase::data) phase_ = Phase::rest;
}

RAYTRAIN_TORCH_INLINE auto StepTimer::begin_backward() noexcept -> bool {
  if (std::this_thread::get_id() != owner_ || phase_ == Phase::backward) return false;
  begin(Phase::backward);
  samples_ += std::exchange(of_batch_, 0);
  return true;
}

RAYTRAIN_TORCH_INLINE auto StepTimer::times() noexcept -> StepTimes {
  begin(phase_);
  auto const all = std::chrono::duration<double>{since_ - begin_}.count();
  return {.samples_per_s = all > 0 ? static_cast<double>(samples_) / all : 0,
          .data_s = seconds(Phase::data),
          .forward_s = seconds(Phase::forward),
          .backward_s = seconds(Phase::backward),
          .exchange_s = seconds(Phase::exchange),
          .optimizer_s = seconds(Phase::optimizer),
          .rest_s = seconds(Phase::rest)};
}

RAYTRAIN_TORCH_INLINE void StepTimer::restart() noexcept {
  begin(phase_);
  begin_ = since_;
  spent_ = {};
  samples_ = 0;
}

RAYTRAIN_TORCH_INLINE auto StepTimer::seconds(Phase phase) const noexcept -> double {
  return std::chrono::duration<double>{spent_[static_cast<std::size_t>(phase)]}.count();
}

RAYTRAIN_TORCH_INLINE auto TimedCollective::start(Task const& task) -> Pending {
  struct Timed final : Pending::Work {
    Timed(Pending begun_, std::shared_ptr<StepTimer> timer_) : begun{std::move(begun_)}, timer{std::move(timer_)} {}
    void wait() override {
      InPhase const exchanges{timer.get(), StepTimer::Phase::exchange};
      begun.wait();
    }
    Pending begun;
    std::shared_ptr<StepTimer> timer;
  };
  InPhase const exchanges{timer_.get(), StepTimer::Phase::exchange};
  auto begun = collective_->start(task);
  return begun.is_over() ? Pending{} : Pending{std::make_unique<Timed>(std::move(begun), timer_)};
}

RAYTRAIN_TORCH_INLINE auto make_step_timer() -> std::shared_ptr<StepTimer> {
  static SystemClock const clock;
  return std::make_shared<StepTimer>(clock);
}

RAYTRAIN_TORCH_INLINE void add_step_times(Metrics& metrics, StepTimes const& times) {
  for (auto const& [name, value] : to_metrics(times)) {
    if (!metrics.contains(name)) metrics.set(name, value);
  }
}

RAYTRAIN_TORCH_INLINE void time_backwards(torch::nn::Module const& module, std::shared_ptr<StepTimer> const& timer) {
  for (auto const& parameter : module.parameters()) {
    if (!parameter.requires_grad()) continue;
    // The hook stays with the parameter, which may outlive the training.
    parameter.register_hook([timer](at::Tensor const&) {
      if (!timer->begin_backward()) return;
      torch::autograd::Engine::get_default_engine().queue_callback(
          [timer = timer.get()] { timer->begin(StepTimer::Phase::rest); });
    });
  }
}

}  // namespace raytrain::detail
