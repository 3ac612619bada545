// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

namespace detail {

inline constexpr std::array<std::string_view, 8> automatic_names{
    "training_iteration", "time_this_iter_s", "time_total_s", "timestamp", "hostname", "pid", "node_ip", "world_rank"};

/// Rounded once: a double holds today's nanoseconds only to a multiple of 256.
[[nodiscard]] constexpr auto seconds(std::int64_t nanoseconds) noexcept -> double {
  constexpr std::int64_t second = 1'000'000'000;
  return static_cast<double>(nanoseconds / second) + static_cast<double>(nanoseconds % second) / 1e9;
}

}  // namespace detail

/// Metrics that every report gains, in the order of `all_metrics`; a report's own fields cannot have these names.
[[nodiscard]] constexpr auto automatic_metric_names() noexcept -> std::span<std::string_view const> {
  return detail::automatic_names;
}

/// The user's metrics, then the automatic ones. `worker` is the message by which the report's worker started.
/// `timestamp` is in seconds since 1970.
[[nodiscard]] inline auto all_metrics(Report const& report, Started const& worker) -> Metrics {
  Metrics all;
  all.reserve(report.metrics.size() + automatic_metric_names().size());
  for (auto const& [name, value] : report.metrics) all.set(name, value);
  all.set("training_iteration", report.training_iteration);
  all.set("time_this_iter_s", report.time_this_iter_s);
  all.set("time_total_s", report.time_total_s);
  all.set("timestamp", detail::seconds(report.timestamp_ns));
  all.set("hostname", worker.hostname);
  all.set("pid", worker.pid);
  all.set("node_ip", worker.node_ip);
  all.set("world_rank", report.rank.value);
  return all;
}

}  // namespace raytrain
