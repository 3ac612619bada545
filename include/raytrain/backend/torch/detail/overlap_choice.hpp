// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// Finds out whether a model's backwards are faster with the exchange of gradients beside them or behind them, by doing
/// both in turns. All ranks choose the same.
///
/// Threads: the worker's.
class OverlapChoice {
 public:
  using Duration = std::chrono::duration<double, std::milli>;

  static constexpr std::size_t not_counted = 4;  ///< First backwards, in which memory is touched for the first time.
  static constexpr std::size_t of_each = 10;     ///< Backwards of each kind, of whose times the median counts.

  /// Whether the exchange of the next backward goes on beside it.
  [[nodiscard]] auto overlaps() const noexcept -> bool { return chosen_ ? *chosen_ : count_ % 2 == 0; }

  [[nodiscard]] auto is_made() const noexcept -> bool { return chosen_.has_value(); }

  /// 1 where it is chosen, 0 where it is not, and 0.5 before, when both are done in turns.
  [[nodiscard]] auto share() const noexcept -> double { return !is_made() ? 0.5 : *chosen_ ? 1 : 0; }

  /// A backward and its exchange took so long. The last one that counts is a group operation, in which the choice is
  /// made by the ranks' mean times.
  void add(Duration time, Collective& collective);

  /// Of a choice that is made: "during its backwards, which take 12.3 ms instead of 15.8 ms".
  [[nodiscard]] auto text() const -> std::string;

 private:
  std::size_t count_ = 0;
  std::array<std::vector<double>, 2> times_;  ///< In ms: behind backwards, and beside them.
  std::array<double, 2> medians_{};           ///< The ranks' mean.
  std::optional<bool> chosen_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/overlap_choice-inl.hpp>
#endif
