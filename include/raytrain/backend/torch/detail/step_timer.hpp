// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include <torch/torch.h>

#include <raytrain/backend/torch/step_times.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/metrics.hpp>

namespace raytrain::detail {

/// Divides a worker's time among the phases of its steps, by one clock reading where one phase follows another.
///
/// Threads: that which has made it; calls from another one change nothing.
class StepTimer {
 public:
  enum class Phase : std::uint8_t { data, forward, backward, exchange, optimizer, rest };

  explicit StepTimer(Clock const& clock) : clock_{clock}, begin_{clock.now()}, since_{begin_} {}

  /// Returns the phase that it ends. Data that is begun first when a batch was handed out has begun with that.
  auto begin(Phase phase) noexcept -> Phase;

  /// A batch is asked for.
  void ask() noexcept;

  /// A batch of so many samples is there, when it was asked for or a moment later.
  void hand_out(std::size_t samples) noexcept;

  /// No more batches are there.
  void end_batches() noexcept;

  /// A gradient is there. False if it is not the first one of a backward.
  [[nodiscard]] auto begin_backward() noexcept -> bool;

  /// Since `restart`.
  [[nodiscard]] auto times() noexcept -> StepTimes;

  void restart() noexcept;

 private:
  [[nodiscard]] auto seconds(Phase phase) const noexcept -> double;

  Clock const& clock_;
  std::thread::id owner_ = std::this_thread::get_id();
  Phase phase_ = Phase::rest;
  std::array<Clock::Duration, 6> spent_{};  ///< By phase.
  Clock::TimePoint begin_;
  Clock::TimePoint since_;
  bool is_handed_out_ = false;  ///< The batch, and nothing has begun since.
  std::uint64_t of_batch_ = 0;  ///< Samples, until a backward counts them.
  std::uint64_t samples_ = 0;
};

/// A phase that lasts until this is gone; a null timer measures nothing.
class InPhase {
 public:
  /// The phase before goes on then, or where that was data, since the next batch was asked for already, the forward.
  InPhase(StepTimer* timer, StepTimer::Phase phase) noexcept
      : timer_{timer}, next_{timer == nullptr ? phase : timer->begin(phase)} {
    if (next_ == StepTimer::Phase::data) next_ = StepTimer::Phase::forward;
  }
  InPhase(StepTimer* timer, StepTimer::Phase phase, StepTimer::Phase next) noexcept : timer_{timer}, next_{next} {
    if (timer != nullptr) timer->begin(phase);
  }
  InPhase(InPhase const&) = delete;
  auto operator=(InPhase const&) -> InPhase& = delete;
  ~InPhase() {
    if (timer_ != nullptr) timer_->begin(next_);
  }

 private:
  StepTimer* timer_;
  StepTimer::Phase next_;
};

/// A worker's collective whose operations, with the wait for other workers, are its exchange; of one that goes on while
/// the worker does something else, its start and the wait for its end.
class TimedCollective final : public WrappedCollective {
 public:
  /// `collective`: never null.
  TimedCollective(std::unique_ptr<Collective> collective, std::shared_ptr<StepTimer> timer) noexcept
      : WrappedCollective{*collective}, collective_{std::move(collective)}, timer_{std::move(timer)} {}

  [[nodiscard]] auto start(Task const& task) -> Pending override;

 private:
  std::unique_ptr<Collective> collective_;
  std::shared_ptr<StepTimer> timer_;
};

/// A new one, by the system's clock.
[[nodiscard]] auto make_step_timer() -> std::shared_ptr<StepTimer>;

/// But for names that are there already.
void add_step_times(Metrics& metrics, StepTimes const& times);

/// Tells the timer of backwards through a model whose gradients nobody averages.
void time_backwards(torch::nn::Module const& module, std::shared_ptr<StepTimer> const& timer);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/step_timer-inl.hpp>
#endif
