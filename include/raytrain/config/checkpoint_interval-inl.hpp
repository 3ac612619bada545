// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

#include <raytrain/config/checkpoint_interval.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto CheckpointInterval::text() const -> std::string {
  switch (kind_) {
    case Kind::reports: return fmt::format("CheckpointInterval::reports({})", count_);
    case Kind::automatic: return fmt::format("CheckpointInterval::automatic({} s)", time_.count());
    case Kind::time: break;
  }
  return fmt::format("{} s", time_.count());
}

RAYTRAIN_INLINE void CheckpointInterval::validate() const {
  if (kind_ == Kind::reports ? count_ >= 1 : time_.count() > 0) return;
  auto const what = kind_ == Kind::automatic ? "the mean time between failures must be above 0"
                    : kind_ == Kind::time    ? "a time must be above 0"
                                             : "a number of reports must be at least 1";
  throw Error{Errc::invalid_config, "CheckpointConfig::every", fmt::format("{} (got {})", what, text()),
              "leave it unset to write every checkpoint that is reported"};
}

RAYTRAIN_INLINE auto cheapest_interval(CheckpointTimes times) -> CheckpointInterval::Seconds {
  auto const [cost, between_failures] = times;
  if (cost >= 2 * between_failures) return between_failures;
  auto const young = std::sqrt(2 * cost.count() * between_failures.count());
  auto const ratio = cost / (2 * between_failures);
  return CheckpointInterval::Seconds{young * (1 + std::sqrt(ratio) / 3 + ratio / 9)} - cost;
}

}  // namespace raytrain
