// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/train/controller.hpp>

// Events that tests of the controller hand it, and what they look for in its actions.

namespace raytrain::testing {

inline auto start(Controller& controller, std::uint32_t world) -> void {
  controller.handle(RunEvent{RunBegins{}});
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    controller.handle(RunEvent{WorkerMessage{Started{Rank{rank}, "node", 1, "127.0.0.1"}}});
  }
}

inline auto failure(std::optional<Rank> rank, std::string text) -> Failed {
  return Failed{ErrorInfo{Errc::exception, {}, std::move(text)}.with_origin(rank, "node")};
}

inline auto stop_request(std::uint32_t times = 1) -> RunEvent {
  return RunEvent{WorkerMessage{StopRequest{Rank{0}, times}}};
}

inline auto report(Rank rank, std::uint64_t iteration, std::optional<std::uint64_t> checkpoint = {},
                   Metrics metrics = {}) -> RunEvent {
  Report what;
  what.rank = rank;
  what.training_iteration = iteration;
  if (checkpoint) what.checkpoint = CheckpointOrdinal{*checkpoint};
  what.metrics = std::move(metrics);
  return RunEvent{WorkerMessage{std::move(what)}};
}

inline auto part(Rank rank, std::uint64_t checkpoint) -> RunEvent {
  CheckpointRef what;
  what.rank = rank;
  what.checkpoint = CheckpointOrdinal{checkpoint};
  return RunEvent{WorkerMessage{std::move(what)}};
}

template <class A>
auto find(std::vector<RunAction> const& actions) -> A const* {
  for (auto const& action : actions) {
    if (auto const* const found = std::get_if<A>(&action)) return found;
  }
  return nullptr;
}

template <class N>
auto find_notice(std::vector<RunAction> const& actions) -> N const* {
  for (auto const& action : actions) {
    auto const* const record = std::get_if<RecordMessage>(&action);
    if (record == nullptr) continue;
    if (auto const* const found = std::get_if<N>(&record->what)) return found;
  }
  return nullptr;
}

inline auto is_abort(RunAction const& action) -> bool {
  auto const* const tell = std::get_if<TellWorkers>(&action);
  return tell != nullptr && tell->message == ControllerMessage{Stop{true}};
}

inline auto aborts(std::vector<RunAction> const& actions) -> bool { return std::ranges::any_of(actions, is_abort); }

}  // namespace raytrain::testing
