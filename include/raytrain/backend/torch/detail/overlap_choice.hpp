// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// Finds out whether a model's backwards are faster with the exchange of gradients beside them or behind them. All
/// ranks choose the same.
///
/// First it only times. The exchange stays after the backward if it is a small part of the time, if any rank cannot
/// gain by overlap, or if a gradient came twice in a backward. Otherwise both ways are tried, in turns.
///
/// Threads: the worker's.
class OverlapChoice {
 public:
  using Duration = std::chrono::duration<double, std::milli>;

  static constexpr std::size_t not_counted = 4;  ///< First backwards of each stage: memory is touched first.
  static constexpr std::size_t of_each = 10;     ///< Backwards of each kind, of whose times the median counts.
  static constexpr double smallest_share = 0.1;  ///< Of the exchange in all of that time, for overlap to be tried.

  struct Times {
    Duration all{};       ///< From a backward's first gradient until all are averaged.
    Duration exchange{};  ///< Of that what comes behind the backward.
  };

  /// `may_pay`: whether this rank may gain by an exchange beside backwards.
  explicit OverlapChoice(bool may_pay) : may_pay_{may_pay} {}

  /// Whether the exchange of the next backward goes on beside it.
  [[nodiscard]] auto overlaps() const noexcept -> bool {
    return stage_ == Stage::beside || (stage_ == Stage::both && count_ % 2 == 0);
  }

  /// Whether backwards of both kinds come now.
  [[nodiscard]] auto tries_both() const noexcept -> bool { return stage_ == Stage::both; }
  [[nodiscard]] auto is_made() const noexcept -> bool { return stage_ == Stage::behind || stage_ == Stage::beside; }

  /// 1 where it is chosen, 0 where it is not, and 0.5 when both are done in turns.
  [[nodiscard]] auto share() const noexcept -> double {
    return stage_ == Stage::both ? 0.5 : stage_ == Stage::beside ? 1 : 0;
  }

  /// A backward begins, of a model of so many parameters.
  void begin_backward(std::size_t parameters);
  /// A gradient of this parameter is there.
  void arrive(std::size_t parameter);
  /// The backward has ended, and what is left of its exchange begins.
  void begin_exchange();
  /// The gradients are averaged: as `add`, of the times between these calls.
  void end_exchange(Collective& collective);

  /// A backward and its exchange took so long. The last one of those that count is a group operation, in which ranks
  /// agree on the mean of their times.
  void add(Times const& times, Collective& collective);

  /// The exchange is behind backwards from now on. Called on every rank.
  void stay_behind() noexcept { stage_ = Stage::behind; }

  /// Once both were tried: "during its backwards, which take 12.3 ms instead of 15.8 ms".
  [[nodiscard]] auto text() const -> std::string;

 private:
  using Clock = std::chrono::steady_clock;

  enum class Stage : std::uint8_t { looking, both, behind, beside };

  bool may_pay_;
  Stage stage_ = Stage::looking;
  std::size_t count_ = 0;  ///< In this stage.
  /// In ms. While looking: [0] backward and exchange, [1] the exchange alone. While trying both: [0] without overlap,
  /// [1] with.
  std::array<std::vector<double>, 2> times_;
  std::array<double, 2> medians_{};  ///< The ranks' mean.

  Clock::time_point backward_began_;
  Clock::time_point exchange_began_;
  std::vector<bool> has_arrived_;  ///< By parameter.
  bool arrives_again_ = false;     ///< A gradient, in any backward.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/overlap_choice-inl.hpp>
#endif
