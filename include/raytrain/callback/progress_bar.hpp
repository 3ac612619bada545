// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

/// What a `ProgressBar` writes, and where.
struct ProgressBarOptions {
  std::FILE* out = stdout;         ///< Not closed.
  std::optional<bool> terminal{};  ///< Redraws one line with a bar; unset: if `out` is a terminal.
  std::string unit{"samples"};     ///< What `TrainContext::progress` counts.
};

/// Shows rank 0's way through the training: on a terminal a bar with speed and time left, redrawn in place, and in a
/// log one plain line per report.
class ProgressBar final : public Callback {
 public:
  explicit ProgressBar(ProgressBarOptions options = {}, std::shared_ptr<Clock> clock = std::make_shared<SystemClock>())
      : options_{std::move(options)},
        terminal_{options_.terminal.value_or(::isatty(::fileno(options_.out)) == 1)},
        clock_{std::move(clock)} {}

  void on_start(RunInfo const& info) override {
    begin_.reset();
    latest_ = Progress{};
    auto const from = info.resumed_from ? fmt::format(", goes on after report {} from {}", info.training_iteration,
                                                      info.resumed_from->path().filename().string())
                                        : std::string{};
    write_line(fmt::format("{}: {} {} of {}{}", info.name, info.world_size.value,
                           info.world_size.value == 1 ? "worker" : "workers", info.backend, from));
  }

  void on_report(Report const& report, Metrics const&) override {
    if (report.rank != Rank{0}) return;
    std::string line =
        fmt::format("report {:>4}  {:>8}", report.training_iteration, duration_text(report.time_total_s));
    for (auto const& [name, value] : report.metrics) line += fmt::format("  {} {}", name, value_text(value));
    write_line(line);
  }

  void on_progress(Progress const& progress) override {
    if (!begin_) begin_ = Point{clock_->now(), progress.done};
    latest_ = progress;
    draw();
  }

  void on_warning(std::string_view text) override { write_line(fmt::format("warning: {}", text)); }

  void on_failure(Failed const& failed) override {
    write_line(fmt::format("rank {} failed: {}", failed.rank.value, failed.text));
  }

  void on_finish(Result const&) override {
    clear();
    std::fflush(options_.out);
  }

 private:
  struct Point {
    Clock::TimePoint time;
    std::uint64_t done;
  };

  // Above the bar, which then moves down.
  void write_line(std::string_view line) {
    clear();
    fmt::print(options_.out, "{}\n", line);
    if (latest_.total > 0) draw();
    std::fflush(options_.out);
  }

  void clear() {
    if (terminal_) fmt::print(options_.out, "\r\x1b[K");
  }

  void draw() {
    if (!terminal_ || !begin_) return;
    auto const share = latest_.total == 0
                           ? 0.0
                           : std::min(1.0, static_cast<double>(latest_.done) / static_cast<double>(latest_.total));
    auto const elapsed = std::chrono::duration<double>{clock_->now() - begin_->time}.count();
    auto const done = static_cast<double>(latest_.done) - static_cast<double>(begin_->done);
    auto const rate = elapsed > 0 ? done / elapsed : 0.0;
    auto const left = static_cast<double>(latest_.total) - static_cast<double>(latest_.done);

    auto text = fmt::format(" {:3.0f} %", 100 * share);
    if (rate > 0) text += fmt::format("  {:.0f} {}/s  {} left", rate, options_.unit, duration_text(left / rate));
    if (!latest_.note.empty()) text += "  " + latest_.note;
    auto const room = width() - 1;
    if (text.size() > room) text.resize(room);
    auto const bar = std::min<std::size_t>(30, room - text.size());
    auto const filled = static_cast<std::size_t>(share * static_cast<double>(bar));
    fmt::print(options_.out, "\r\x1b[K{:#<{}}{:-<{}}{}", "", filled, "", bar - filled, text);
    std::fflush(options_.out);
  }

  [[nodiscard]] auto width() const -> std::size_t {
    winsize size{};
    auto const known = ::ioctl(::fileno(options_.out), TIOCGWINSZ, &size) == 0 && size.ws_col > 10;
    return known ? size.ws_col : 80;
  }

  [[nodiscard]] static auto duration_text(double seconds) -> std::string {
    if (!std::isfinite(seconds) || seconds >= 360'000) return "very long";
    if (seconds < 60) return fmt::format("{:.1f} s", seconds);
    auto const whole = static_cast<int>(seconds);
    return whole < 3600 ? fmt::format("{}:{:02} min", whole / 60, whole % 60)
                        : fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
  }

  [[nodiscard]] static auto value_text(MetricValue const& value) -> std::string {
    return std::visit(
        []<class T>(T const& plain) {
          if constexpr (std::is_same_v<T, double>) {
            return fmt::format("{:.5g}", plain);
          } else {
            return fmt::format("{}", plain);
          }
        },
        value);
  }

  ProgressBarOptions options_;
  bool terminal_;
  std::shared_ptr<Clock> clock_;
  std::optional<Point> begin_;
  Progress latest_;
};

}  // namespace raytrain
