// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/rejected_log.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void RejectedLog::tell(std::string text) {
  if (told_ < told_singly) {
    ++told_;
    say(std::move(text));
    return;
  }
  ++untold_;
  last_ = std::move(text);
}

RAYTRAIN_INLINE void RejectedLog::tell_rest_if_due(Clock::TimePoint now) {
  if (now < next_) return;
  if (untold_ > 0) next_ = now + pause;
  tell_rest();
}

RAYTRAIN_INLINE void RejectedLog::tell_rest() {
  if (untold_ == 0) return;
  say("of " + std::to_string(untold_) + " more the last one: " + last_);
  untold_ = 0;
}

RAYTRAIN_INLINE void RejectedLog::say(std::string text) const {
  if (tell_) tell_(std::move(text));
}

}  // namespace raytrain::detail
