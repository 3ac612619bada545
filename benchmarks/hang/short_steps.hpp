// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <raytrain/trainer.hpp>

/// Steps of about 5 ms of computing and a barrier, equally many on all workers.
inline void train_for(raytrain::TrainContext& ctx, std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  auto const end = Clock::now() + time;
  for (auto goes_on = true; goes_on;) {
    for (auto const step_end = Clock::now() + std::chrono::milliseconds{5}; Clock::now() < step_end;) continue;
    goes_on = ctx.sum(Clock::now() < end ? 1 : 0) > 0;
  }
}
