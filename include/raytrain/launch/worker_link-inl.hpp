// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE void WorkerLink::send(WorkerMessage message) {
  if (is_forked()) {
    throw Error{Errc::invalid_call, "telling the controller of rank " + std::to_string(placement_.world_rank.value),
                "this process was forked from the worker's, and is not the worker",
                "report in the worker's own process, and end its children by _exit()"};
  }
  std::visit([this](auto& what) { what.attempt = attempt_; }, message);
  if (auto* const warning = std::get_if<Warning>(&message)) warning->rank = placement_.world_rank;
  (void)sink_.send(std::move(message));
}

RAYTRAIN_INLINE void WorkerLink::wait_committed(CheckpointOrdinal checkpoint) {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return settled_ > checkpoint.value || abort_.stop_requested(); });
  if (settled_ <= checkpoint.value) throw Stopped{};
}

RAYTRAIN_INLINE auto WorkerLink::settled(CheckpointOrdinal checkpoint) -> std::optional<Settled> {
  std::lock_guard const lock{mutex_};
  return settled_ > checkpoint.value ? std::optional{last_settled_} : std::nullopt;
}

RAYTRAIN_INLINE void WorkerLink::wait_committed_for(CheckpointOrdinal checkpoint, std::chrono::milliseconds limit) {
  std::unique_lock lock{mutex_};
  changed_.wait_for(lock, limit, [&] { return settled_ > checkpoint.value || abort_.stop_requested(); });
}

RAYTRAIN_INLINE void WorkerLink::deliver(ControllerMessage const& message) {
  if (auto const* const stop = std::get_if<Stop>(&message)) {
    stop_.request_stop();
    if (stop->abort) {
      abort_.request_stop();
      // Taken and left once, so that a waiter is either before its check or inside wait().
      { std::lock_guard const lock{mutex_}; }
      changed_.notify_all();
    }
  } else if (auto const* const settled = std::get_if<CheckpointSettled>(&message)) {
    {
      std::lock_guard const lock{mutex_};
      // A later one may have been given up before.
      if (settled->checkpoint.value + 1 > settled_) {
        settled_ = settled->checkpoint.value + 1;
        last_settled_ = {SignsOfLife::Clock::now(), settled->number.has_value()};
      }
    }
    changed_.notify_all();
  }
}

}  // namespace raytrain
