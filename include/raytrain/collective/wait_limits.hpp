// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace raytrain {

/// How long a rank waits for the others in an operation of a `Collective`.
struct WaitLimits {
  /// After it every rank's call throws `Error{Errc::timed_out}`, which names the ranks that have not come as far as
  /// they can be known, and the collective is unusable. Above 0.
  std::chrono::milliseconds timeout = std::chrono::minutes{30};

  /// After it `on_warning` is told which ranks have not come, once a barrier of an operation. 0: never.
  std::chrono::milliseconds warn_after = std::chrono::seconds{10};

  /// Called on the thread of a rank that waits: of the lowest one that is known to; empty: nobody is told. What it
  /// throws is lost.
  std::function<void(std::string const&)> on_warning{};

  /// Errors: `invalid_call`, about `what` has them, for a time out of its range.
  void validate(char const* what) const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/collective/wait_limits-inl.hpp>
#endif
