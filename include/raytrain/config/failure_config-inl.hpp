// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include <raytrain/config/failure_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE void FailureConfig::validate() const {
  if (max_failures < -1) {
    throw Error{Errc::invalid_config, "FailureConfig::max_failures",
                "must be at least -1 (got " + std::to_string(max_failures) + ")",
                "write 0 to end at the first failure, or -1 to start workers again after any number of them"};
  }
  if (max_preemptions < -1) {
    throw Error{Errc::invalid_config, "FailureConfig::max_preemptions",
                "must be at least -1 (got " + std::to_string(max_preemptions) + ")",
                "write 0 to count each process that is taken away as a failure, or -1 to start workers again after any "
                "number of them"};
  }
  if (backoff.count() < 0) {
    throw Error{Errc::invalid_config, "FailureConfig::backoff",
                "must not be negative (got " + std::to_string(backoff.count()) + " ms)",
                "write 0 to start workers again at once"};
  }
  if (max_backoff < backoff) {
    throw Error{Errc::invalid_config, "FailureConfig::max_backoff",
                "must not be below FailureConfig::backoff (got " + std::to_string(max_backoff.count()) + " ms and " +
                    std::to_string(backoff.count()) + " ms)",
                "write the longest time to wait"};
  }
  if (hang_timeout.count() != 0 && hang_timeout < shortest_hang_timeout) {
    throw Error{Errc::invalid_config, "FailureConfig::hang_timeout",
                "must be 0 or at least " + std::to_string(shortest_hang_timeout.count()) + " ms (got " +
                    std::to_string(hang_timeout.count()) + " ms)",
                "write some times the longest step; 0 lets workers compute for as long as they like"};
  }
}

RAYTRAIN_INLINE auto FailureConfig::backoff_after(std::uint32_t failures, std::uint64_t random) const
    -> std::chrono::milliseconds {
  auto longest = std::max(backoff, std::chrono::milliseconds{0});
  for (std::uint32_t i = 1; i < failures && longest < max_backoff && longest.count() > 0; ++i) {
    longest = longest > max_backoff / 2 ? max_backoff : 2 * longest;
  }
  auto const half = longest / 2;
  return longest - std::chrono::milliseconds{static_cast<std::int64_t>(
                       half.count() > 0 ? random % static_cast<std::uint64_t>(half.count() + 1) : 0)};
}

}  // namespace raytrain
