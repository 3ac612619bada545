// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

RAYTRAIN_INLINE void ProgressBar::write_above(std::string_view line) {
  std::lock_guard const lock{mutex_};
  write_line(line);
}

RAYTRAIN_INLINE void ProgressBar::on_start(RunInfo const& info) {
  std::lock_guard const lock{mutex_};
  begin_.reset();
  latest_ = Progress{};
  next_line_ = clock_->now() + log_interval;
  auto const workers = info.world_size.value == 1 ? "worker" : "workers";
  std::string from;
  if (info.resumed_from) {
    from = fmt::format(", goes on after report {} from {}", info.training_iteration,
                       std::filesystem::path{info.resumed_from->location()}.filename().string());
  } else if (info.begins_from) {
    from = ", begins from " + info.begins_from->location();
  }
  bar_ = fmt::format("starting {} {} ...", info.world_size.value, workers);
  write_line(fmt::format("{}: {} {} of {}{}", info.name, info.world_size.value, workers, info.backend, from));
}

RAYTRAIN_INLINE void ProgressBar::on_report(Report const& report, Metrics const&) {
  if (report.rank != Rank{0}) return;
  std::string line = fmt::format("report {:>4}  {:>8}", report.training_iteration, duration_text(report.time_total_s));
  for (auto const& [name, value] : report.metrics) line += fmt::format("  {} {}", name, value_text(value));
  std::lock_guard const lock{mutex_};
  if (!begin_) bar_.clear();
  next_line_ = clock_->now() + log_interval;
  write_line(line);
}

RAYTRAIN_INLINE void ProgressBar::on_progress(Progress const& progress) {
  std::lock_guard const lock{mutex_};
  auto const was_complete = latest_.total > 0 && latest_.done >= latest_.total;
  auto const counts_anew =
      progress.done < latest_.done || progress.total < latest_.total || (was_complete && progress.done == latest_.done);
  if (!begin_ || counts_anew) begin_ = Point{clock_->now(), progress.done};
  latest_ = progress;
  if (terminal_) {
    bar_ = progress_text(width() - 1);
    put("");
  } else if (clock_->now() >= next_line_) {
    next_line_ = clock_->now() + log_interval;
    write_line(state_text());
  }
}

RAYTRAIN_INLINE void ProgressBar::on_failure(ErrorInfo const& error) {
  write_above(error.rank ? fmt::format("rank {} has failed", error.rank->value) : "the run has failed");
}

RAYTRAIN_INLINE void ProgressBar::on_restart(AttemptInfo const& before, std::optional<Checkpoint> const& resumed_from) {
  auto const from = resumed_from ? fmt::format("goes on after report {} from checkpoint {}",
                                               resumed_from->training_iteration(), resumed_from->number().value)
                                 : std::string{"begins anew"};
  std::lock_guard const lock{mutex_};
  begin_.reset();
  latest_ = Progress{};
  auto const next = before.attempt.value + 1;
  bar_ = fmt::format("starting attempt {} ...", next);
  auto const hosts = before.lost_hosts.empty() ? std::string{}
                                               : fmt::format(", without the hosts that do not answer: {}",
                                                             fmt::join(before.lost_hosts, ", "));
  auto const workers =
      before.next_world_size == before.world_size
          ? std::string{}
          : fmt::format(" with {} workers instead of {}", before.next_world_size.value, before.world_size.value);
  auto const has_failed = !before.failures.empty();
  auto const& reasons = has_failed ? before.failures : before.preemptions;
  auto const cause = reasons.empty()
                         ? std::string{}
                         : fmt::format(", since attempt {} {}: {}", before.attempt.value,
                                       has_failed ? "has failed" : "is pre-empted", TrainingFailed::describe(reasons));
  write_line(fmt::format("attempt {} {}{} ({} reports to repeat){}{}", next, from, workers, before.lost_reports, hosts,
                         cause));
}

RAYTRAIN_INLINE void ProgressBar::on_finish(Result const&) {
  std::lock_guard const lock{mutex_};
  bar_.clear();
  put("");
}

RAYTRAIN_INLINE auto ProgressBar::can_redraw(std::FILE* out) -> bool {
  auto const* const terminal = std::getenv("TERM");
  auto const dumb = terminal == nullptr || std::string_view{terminal} == "dumb";
  return !dumb && !job_environment() && ::isatty(::fileno(out)) == 1;
}

RAYTRAIN_INLINE void ProgressBar::put(std::string_view text) {
  if (silent_) return;
  auto const shown = terminal_ ? fmt::format("\r\x1b[K{}{}", text, bar_) : std::string{text};
  BrokenPipeGuard const guard;
  auto const written = std::fwrite(shown.data(), 1, shown.size(), options_.out);
  silent_ = written != shown.size() || std::fflush(options_.out) != 0;
}

RAYTRAIN_INLINE auto ProgressBar::share() const -> double {
  if (latest_.total == 0) return 0;
  return std::min(1.0, static_cast<double>(latest_.done) / static_cast<double>(latest_.total));
}

RAYTRAIN_INLINE auto ProgressBar::state_text() const -> std::string {
  auto const elapsed = std::chrono::duration<double>{clock_->now() - begin_->time}.count();
  auto const done = static_cast<double>(latest_.done) - static_cast<double>(begin_->done);
  auto const rate = elapsed > 0 ? done / elapsed : 0.0;
  auto const left = std::max(0.0, static_cast<double>(latest_.total) - static_cast<double>(latest_.done));
  auto const known = latest_.total > 0;
  auto text = known ? fmt::format(" {:3.0f} %", 100 * share()) : fmt::format(" {} {}", latest_.done, options_.unit);
  if (rate > 0) text += fmt::format("  {:.0f} {}/s", rate, options_.unit);
  if (rate > 0 && known) text += fmt::format("  {} left", duration_text(left / rate));
  if (!latest_.note.empty()) text += "  " + latest_.note;
  return text;
}

RAYTRAIN_INLINE auto ProgressBar::progress_text(std::size_t room) const -> std::string {
  auto text = state_text();
  if (text.size() > room) text.resize(whole_characters(text, room));
  if (latest_.total == 0) return text;
  auto const bar = std::min<std::size_t>(30, room - text.size());
  auto const filled = static_cast<std::size_t>(share() * static_cast<double>(bar));
  return fmt::format("{:#<{}}{:-<{}}{}", "", filled, "", bar - filled, text);
}

RAYTRAIN_INLINE auto ProgressBar::whole_characters(std::string_view text, std::size_t room) -> std::size_t {
  while (room > 0 && (static_cast<unsigned char>(text[room]) & 0xC0U) == 0x80U) --room;
  return room;
}

RAYTRAIN_INLINE auto ProgressBar::width() const -> std::size_t {
  winsize size{};
  auto const known = ::ioctl(::fileno(options_.out), TIOCGWINSZ, &size) == 0 && size.ws_col > 10;
  return known ? size.ws_col : 80;
}

RAYTRAIN_INLINE auto ProgressBar::duration_text(double seconds) -> std::string {
  if (!std::isfinite(seconds) || seconds >= 360'000) return "very long";
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  auto const whole = static_cast<int>(seconds);
  return whole < 3600 ? fmt::format("{}:{:02} min", whole / 60, whole % 60)
                      : fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

RAYTRAIN_INLINE auto ProgressBar::value_text(MetricValue const& value) -> std::string {
  return std::visit(
      []<class T>(T const& plain) {
        if constexpr (std::is_same_v<T, double>) {
          auto const large = std::abs(plain) >= 99'999.5 && std::abs(plain) < 1e15;
          return large ? fmt::format("{:.0f}", plain) : fmt::format("{:.5g}", plain);
        } else {
          return fmt::format("{}", plain);
        }
      },
      value);
}

}  // namespace raytrain
