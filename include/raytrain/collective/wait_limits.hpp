// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace raytrain {

/// How long a rank waits for the others in an operation of a `Collective`.
struct WaitLimits {
  /// Longest wait in one barrier of an operation. When it is over, every rank's call throws `Error{Errc::timed_out}`,
  /// which names the missing ranks as far as they are known, and the collective is unusable. Above 0.
  std::chrono::milliseconds timeout = std::chrono::minutes{30};

  /// After this long `on_warning` is told which ranks are missing, once in a barrier. 0: never.
  std::chrono::milliseconds warn_after = std::chrono::seconds{10};

  /// Called on the thread of a rank that waits: of the lowest one that is known to wait. Empty: nobody is told. What
  /// it throws is lost.
  std::function<void(std::string const&)> on_warning{};

  /// Errors: `invalid_call` for a time out of its range; `what` is the owner that the message names.
  void validate(char const* what) const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/wait_limits-inl.hpp>
#endif
