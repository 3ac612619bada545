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
class RejectedLog {
 public:
  explicit RejectedLog(std::function<void(std::string)> tell) : tell_{std::move(tell)} {}

  void tell(std::string text);

  /// At most once in ten seconds.
  void tell_rest_if_due(Clock::TimePoint now);

  void tell_rest();

 private:
  static constexpr std::size_t told_singly = 8;
  static constexpr std::chrono::seconds pause{10};

  void say(std::string text) const;

  std::function<void(std::string)> tell_;
  std::size_t told_ = 0;
  std::size_t untold_ = 0;
  std::string last_;
  Clock::TimePoint next_{};
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/rejected_log-inl.hpp>
#endif
