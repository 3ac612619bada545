// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain::detail {

/// Whose core a rank waits on.
enum class CoreUse : std::uint8_t {
  own,       ///< Nobody else's.
  shared,    ///< Another rank's, too.
  computing  ///< That of a thread that computes meanwhile.
};

/// What a rank does between two looks at something pending: nothing at first, then it gives its core away, then it
/// sleeps, at once where somebody computes on it. MPI goes on with a transfer only while somebody looks, so the more
/// bytes, the later both.
class Backoff {
 public:
  explicit Backoff(CoreUse core = CoreUse::own, std::size_t bytes = 0) noexcept
      : looks_a_turn_{core == CoreUse::own ? 64U : 4U},
        keep_core_time_{core == CoreUse::own ? std::chrono::microseconds{50} + std::chrono::nanoseconds{bytes}
                                             : std::chrono::nanoseconds{0}},
        awake_time_{core == CoreUse::computing ? std::chrono::nanoseconds{0}
                                               : std::chrono::milliseconds{2} + std::chrono::nanoseconds{bytes * 10}} {}

  /// Returns for how long it has waited; 0 as long as that is not worth a look at the clock.
  auto pause() -> std::chrono::nanoseconds;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds long_time{1};

  std::uint32_t looks_ = 0;
  std::uint32_t looks_a_turn_;
  std::chrono::nanoseconds keep_core_time_;
  std::chrono::nanoseconds awake_time_;
  Clock::time_point begin_{};
  std::chrono::nanoseconds waited_{0};
  std::optional<SignsOfLife::During> waits_;  // once it is worth a look at the clock
};

/// One wait of a rank for others: when its limits are over, by the same rules in every model. The lowest rank that is
/// known to wait warns, once; where nobody knows who waits, each one does.
class Waiting {
 public:
  using Milliseconds = std::chrono::milliseconds;  // of which limits of any size can be compared

  explicit Waiting(WaitLimits const& limits) noexcept
      : limits_{&limits}, warns_{limits.warn_after.count() > 0 && limits.on_warning != nullptr} {}

  [[nodiscard]] auto is_too_long(std::chrono::nanoseconds waited) const noexcept -> bool {
    return std::chrono::floor<Milliseconds>(waited) >= limits_->timeout;
  }

  /// Whether a warning is due that was not given yet.
  [[nodiscard]] auto is_to_warn(std::chrono::nanoseconds waited) const noexcept -> bool {
    return warns_ && std::chrono::floor<Milliseconds>(waited) >= limits_->warn_after;
  }

  /// Gives `text()` to `on_warning`, once. An exception would end an operation in which others use this rank's memory.
  template <class Text>
  void warn(Text const& text) noexcept {
    warns_ = false;
    try {
      limits_->on_warning(text());
    } catch (...) {
      return;
    }
  }

  /// For another rank, which warns instead.
  void warn_no_more() noexcept { warns_ = false; }

  /// Until the next of the two is due.
  [[nodiscard]] auto time_left(std::chrono::nanoseconds waited) const noexcept -> Milliseconds {
    auto const timeout = limits_->timeout;
    return (warns_ ? std::min(timeout, limits_->warn_after) : timeout) - std::chrono::floor<Milliseconds>(waited);
  }

 private:
  WaitLimits const* limits_;
  bool warns_;
};

/// "30 s", "1500 ms".
[[nodiscard]] auto time_text(std::chrono::milliseconds time) -> std::string;

/// "rank 1", "ranks 1 and 2", "ranks 1, 2 and 3"; of none "the others".
[[nodiscard]] auto ranks_text(std::vector<std::uint32_t> const& ranks) -> std::string;

/// Ranks that others wait for.
struct LateRanks {
  std::vector<std::uint32_t> missing;  ///< Empty where they are not known.
  std::chrono::milliseconds waited;
};

// What a rank is told that waits in `what`, a call of an operation mostly.

/// One rank has ended for which another one waits.
struct WaitForEnded {
  Rank ended;
  Rank waiting;
};
[[nodiscard]] auto ended_error(WaitForEnded ranks, std::string const& what) -> Error;

/// It has waited in vain.
[[nodiscard]] auto late_error(LateRanks const& late, Rank waiting, std::string const& what) -> Error;

/// It has waited for `WaitLimits::warn_after`.
[[nodiscard]] auto late_warning(LateRanks const& late, Rank waiting, std::string const& what) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/waiting-inl.hpp>
#endif
