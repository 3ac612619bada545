// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/detail/resize_requests.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void ResizeRequests::ask(std::int64_t workers) {
  std::scoped_lock const lock{mutex_};
  if (!take_) {
    throw Error{Errc::invalid_call, "Trainer::resize", "no fit() of this trainer runs in this process",
                "call it from a callback, or from another thread while fit() runs"};
  }
  auto const fewest = range_.fewest.value;
  auto const most = range_.most.value;
  if (workers < fewest || workers > most) {
    auto const stays = fewest == most;
    throw Error{
        Errc::invalid_config, "Trainer::resize",
        std::to_string(workers) + " workers are asked for, and the run " +
            (stays ? "keeps its " + std::to_string(most) + ", as on Launch::ranks, or with one worker for all cores"
                   : "may have from " + std::to_string(fewest) + " to " + std::to_string(most)),
        "write {.scaling = {.num_workers = {fewest, most}}}"};
  }
  take_(workers);
}

RAYTRAIN_INLINE ResizeRequests::Taker::Taker(ResizeRequests& requests, WorkerRange range,
                                             std::function<void(std::int64_t)> take)
    : requests_{requests} {
  std::scoped_lock const lock{requests_.mutex_};
  requests_.range_ = range;
  requests_.take_ = std::move(take);
}

RAYTRAIN_INLINE ResizeRequests::Taker::~Taker() {
  std::scoped_lock const lock{requests_.mutex_};
  requests_.take_ = nullptr;
}

RAYTRAIN_INLINE auto free_user_signals() -> std::vector<int> {
  std::vector<int> signals;
  for (auto const signal : {SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) signals.push_back(signal);
  }
  return signals;
}

}  // namespace raytrain::detail
