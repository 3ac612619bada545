// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <raytrain/core/clock.hpp>

namespace raytrain::detail {

/// Tells of the first strangers one by one and then of how many there were, since a port scan brings thousands.
///
/// Threads: one.
class StrangerLog {
 public:
  explicit StrangerLog(std::function<void(std::string)> tell) : tell_{std::move(tell)} {}

  void tell(std::string text) {
    if (told_ < told_singly) {
      ++told_;
      say(std::move(text));
      return;
    }
    ++untold_;
    last_ = std::move(text);
  }

  /// At most once in ten seconds.
  void tell_rest_if_due(Clock::TimePoint now) {
    if (now < next_) return;
    if (untold_ > 0) next_ = now + pause;
    tell_rest();
  }

  void tell_rest() {
    if (untold_ == 0) return;
    say("of " + std::to_string(untold_) + " more the last one: " + last_);
    untold_ = 0;
  }

 private:
  static constexpr std::size_t told_singly = 8;
  static constexpr std::chrono::seconds pause{10};

  void say(std::string text) const {
    if (tell_) tell_(std::move(text));
  }

  std::function<void(std::string)> tell_;
  std::size_t told_ = 0;
  std::size_t untold_ = 0;
  std::string last_;
  Clock::TimePoint next_{};
};

}  // namespace raytrain::detail
