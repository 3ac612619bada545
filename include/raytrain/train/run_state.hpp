// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace raytrain {

/// Where a run stands. The last three are terminal.
enum class RunState : std::uint8_t {
  initializing,  ///< Nothing was launched.
  scheduling,    ///< Workers are being started.
  running,       ///< Every worker has started.
  resizing,      ///< Workers were told to end, since another number of them goes on, or one's process is taken away.
  restarting,    ///< Workers have ended, and will be started again.
  stopping,      ///< Workers were told to end: by request, or since one of them failed.
  finished,      ///< Every training function returned, or a callback said that the run is finished.
  errored,       ///< A worker failed, a critical callback, or what is written for the run.
  aborted,       ///< A stop cut the training short; the next start goes on.
};

[[nodiscard]] constexpr auto is_terminal(RunState state) noexcept -> bool { return state >= RunState::finished; }

[[nodiscard]] constexpr auto to_string(RunState state) noexcept -> std::string_view {
  switch (state) {
    case RunState::initializing: return "initializing";
    case RunState::scheduling: return "scheduling";
    case RunState::running: return "running";
    case RunState::resizing: return "resizing";
    case RunState::restarting: return "restarting";
    case RunState::stopping: return "stopping";
    case RunState::finished: return "finished";
    case RunState::errored: return "errored";
    case RunState::aborted: return "aborted";
  }
  return "unknown";
}

/// The state of that name; `errored` for any other: a start that never said how it ended.
[[nodiscard]] constexpr auto run_state_from(std::string_view name) noexcept -> RunState {
  for (auto const state : {RunState::finished, RunState::aborted}) {
    if (to_string(state) == name) return state;
  }
  return RunState::errored;
}

}  // namespace raytrain
