// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace raytrain {

/// How far apart the checkpoints are that are written: in reports, in time, or as it costs least.
class CheckpointInterval {
 public:
  using Seconds = std::chrono::duration<double>;
  enum class Kind : std::uint8_t { reports, time, automatic };

  /// Of so many reports with a checkpoint the last one is written. At least 1.
  [[nodiscard]] static auto reports(std::int64_t count) -> CheckpointInterval { return {Kind::reports, count, {}}; }

  /// As far apart as costs the training least time, by what one costs and how often workers fail.
  ///
  /// The cost is measured: the time from a report until its checkpoint is committed, which is more than what it takes
  /// from a training that goes on meanwhile. So the first report is written, and none before that is over.
  /// `mean_time_between_failures` of the whole run, above 0; what this start has seen itself replaces it from its first
  /// failure on.
  /// Source: J. W. Young, A first order approximation to the optimum checkpoint interval (1974); J. T. Daly, A higher
  ///         order estimate of the optimum checkpoint interval for restart dumps (2006).
  [[nodiscard]] static auto automatic(Seconds mean_time_between_failures = std::chrono::hours{24})
      -> CheckpointInterval {
    return {Kind::automatic, 0, mean_time_between_failures};
  }

  /// The first report so long after the one that was written last, or after the workers' start. Above 0.
  template <class Number, class Period>
  CheckpointInterval(std::chrono::duration<Number, Period> time)  // NOLINT(google-explicit-constructor): .every = 30s
      : CheckpointInterval{Kind::time, 0, Seconds{time}} {}

  [[nodiscard]] auto kind() const noexcept -> Kind { return kind_; }
  /// Of `reports`.
  [[nodiscard]] auto count() const noexcept -> std::int64_t { return count_; }
  /// The interval, or with `automatic` the mean time between failures.
  [[nodiscard]] auto time() const noexcept -> Seconds { return time_; }

  /// As one would write it: "CheckpointInterval::reports(10)".
  [[nodiscard]] auto text() const -> std::string;

  /// Errors: `invalid_config` for a count or a time that is not above 0.
  void validate() const;

 private:
  CheckpointInterval(Kind kind, std::int64_t count, Seconds time) : kind_{kind}, count_{count}, time_{time} {}

  Kind kind_;
  std::int64_t count_;
  Seconds time_;
};

/// By which `cheapest_interval` decides.
struct CheckpointTimes {
  CheckpointInterval::Seconds cost{};              ///< Of one checkpoint; not negative.
  CheckpointInterval::Seconds between_failures{};  ///< In the mean; above 0.
};

/// The time to train between two checkpoints that costs least: Daly's higher order of Young's sqrt(2 cost failures),
/// and `between_failures` where a checkpoint costs twice as much or more.
[[nodiscard]] auto cheapest_interval(CheckpointTimes times) -> CheckpointInterval::Seconds;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/config/checkpoint_interval-inl.hpp>
#endif
