// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

#include <raytrain/core/clock.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto Clock::after(std::chrono::milliseconds duration) const noexcept -> TimePoint {
  constexpr std::chrono::milliseconds year = std::chrono::hours{24 * 365};
  return now() + std::min(duration, year);
}

}  // namespace raytrain
