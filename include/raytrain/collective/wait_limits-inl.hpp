// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE void WaitLimits::validate(char const* what) const {
  auto const refuse = [&](char const* rule, std::chrono::milliseconds got) {
    throw Error{Errc::invalid_call, what, std::string{rule} + " (got " + std::to_string(got.count()) + " ms)"};
  };
  if (timeout.count() <= 0) refuse("the timeout must be above 0", timeout);
  if (warn_after.count() < 0) refuse("warn_after must not be below 0", warn_after);
}

}  // namespace raytrain
