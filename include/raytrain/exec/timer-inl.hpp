// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <system_error>
#include <utility>

#include <asio/steady_timer.hpp>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/detail/event.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/timer.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Timer::cancel() {
  cancelled_ = true;
  due_.notify();
}

RAYTRAIN_INLINE Timer::Armed::Armed(Timer& timer, Clock::TimePoint deadline) : timer_{timer} {
  std::function<void()> ring = [due = timer.due_] { due.notify(); };
  if (auto* const clock = timer.executor_.alarm_clock()) {
    alarm_ = clock->set_alarm(deadline, std::move(ring));
    return;
  }
  timer.timer_.expires_after(deadline - timer.executor_.clock().now());
  timer.timer_.async_wait([ring = std::move(ring)](std::error_code error) {
    if (!error) ring();
  });
}

RAYTRAIN_INLINE Timer::Armed::~Armed() {
  if (alarm_) {
    timer_.executor_.alarm_clock()->drop_alarm(*alarm_);
  } else {
    timer_.timer_.cancel();
  }
}

}  // namespace raytrain
