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
[[nodiscard]] auto all_metrics(Report const& report, Started const& worker) -> Metrics;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/report_line-inl.hpp>
#endif
