// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// Whether this process was started by raytrain, for one worker of `Launch::processes` or `Launch::mpirun`. It runs
/// `main` from its beginning, as far as the `fit()` that it was started for, and ends there: what `main` does before
/// `fit()` happens in each such process, what comes behind it only in the program that a person has started.
[[nodiscard]] auto is_worker_process() noexcept -> bool;

namespace detail {

/// What a worker process is told as it starts, through the environment.
struct WorkerStart {
  Rank rank{};
  WorldSize size{1};
  std::uint32_t fit = 1;      ///< Which `fit()` of the program with `Launch::processes` it is for, from 1.
  std::int64_t supervisor{};  ///< The process that has started it.
  int connection = -1;        ///< Its end of the connection to the controller.
  int results = -1;           ///< A file with what the calls of `fit()` before have given.
  std::string token;

  /// Of both ends of the connection.
  static constexpr std::chrono::milliseconds heartbeat_interval{250};

  static constexpr char const* variable = "RAYTRAIN_WORKER";

  [[nodiscard]] auto text() const -> std::string;

  /// None for what `text` has not made.
  [[nodiscard]] static auto parse(std::string const& text) -> std::optional<WorkerStart>;
};

/// Of this process. The variable is gone from its environment, so that no program that it starts takes it for its own.
[[nodiscard]] auto worker_start() -> std::optional<WorkerStart> const&;

}  // namespace detail
}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/worker_process-inl.hpp>
#endif
