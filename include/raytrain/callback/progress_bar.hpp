// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

/// What a `ProgressBar` writes, and where.
struct ProgressBarOptions {
  std::FILE* out = stdout;  ///< Not closed.
  /// Redraws one line with a bar. Unset: if `out` is a terminal that can, which the output of a job's rank never is.
  std::optional<bool> terminal{};
  std::string unit{"samples"};  ///< What `TrainContext::progress` counts.
};

/// Shows rank 0's way through the training: on a terminal a bar with speed and time left, redrawn in place; in a log
/// one plain line per report, and one each half minute between reports.
///
/// At a failure it says only that there is one. The cause follows when workers are started again; else it is in what
/// `fit()` throws, which the program prints.
/// When nobody reads the output any more (a closed pipe, a full disk), the bar falls silent and the training goes on.
/// Threads: `write_above` from any thread, at any time.
class ProgressBar final : public Callback {
 public:
  explicit ProgressBar(ProgressBarOptions options = {}, std::shared_ptr<Clock> clock = std::make_shared<SystemClock>())
      : options_{std::move(options)},
        terminal_{options_.terminal.value_or(can_redraw(options_.out))},
        clock_{std::move(clock)} {}

  /// Writes one line, with the bar moving down. What is printed in any other way lands behind the bar.
  void write_above(std::string_view line);

  void on_start(RunInfo const& info) override;

  void on_report(Report const& report, Metrics const&) override;

  void on_progress(Progress const& progress) override;

  auto on_warning(std::string_view text) -> bool override {
    write_above(fmt::format("warning: {}", text));
    return true;
  }

  auto on_print(std::string_view line) -> bool override {
    write_above(line);
    return true;
  }

  void on_failure(ErrorInfo const& error) override;

  void on_restart(AttemptInfo const& before, std::optional<Checkpoint> const& resumed_from) override;

  void on_finish(Result const&) override;

 private:
  static constexpr std::chrono::seconds log_interval{30};

  struct Point {
    Clock::TimePoint time;
    std::uint64_t done;
  };

  // mpirun and srun give a rank a terminal of their own, whatever their output goes to.
  [[nodiscard]] static auto can_redraw(std::FILE* out) -> bool;

  void write_line(std::string_view line) { put(fmt::format("{}\n", line)); }

  // The text, then the bar below it.
  void put(std::string_view text);

  [[nodiscard]] auto share() const -> double;

  // How far, how fast, how long still, and the worker's note.
  [[nodiscard]] auto state_text() const -> std::string;

  [[nodiscard]] auto progress_text(std::size_t room) const -> std::string;

  // Bytes of UTF-8 text that fit into `room` without half a character.
  [[nodiscard]] static auto whole_characters(std::string_view text, std::size_t room) -> std::size_t;

  [[nodiscard]] auto width() const -> std::size_t;

  [[nodiscard]] static auto duration_text(double seconds) -> std::string;

  // Five digits, and an exponent only where a number would be too long to read without one.
  [[nodiscard]] static auto value_text(MetricValue const& value) -> std::string;

  ProgressBarOptions options_;
  bool terminal_;
  std::shared_ptr<Clock> clock_;
  std::mutex mutex_;            ///< Guards everything below, and the order on `out`.
  std::optional<Point> begin_;  ///< Of what `latest_` counts, as of an epoch.
  Progress latest_;
  std::string bar_;  ///< The line that is redrawn; empty: none.
  Clock::TimePoint next_line_{};
  bool silent_ = false;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/callback/progress_bar-inl.hpp>
#endif
