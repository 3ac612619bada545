// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// Which launch of the workers a run's message belongs to, from 1 within one `fit()`, which has one so far. The start
/// of the run in its folder is another number, `RunInfo::attempt`.
struct Attempt {
  std::uint64_t value = 1;
  friend constexpr auto operator<=>(Attempt, Attempt) = default;
};

}  // namespace raytrain
