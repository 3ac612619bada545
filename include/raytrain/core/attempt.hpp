// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

namespace raytrain {

/// Which start of its workers a run's message belongs to, from 1 within one `fit()`.
struct Attempt {
  std::uint64_t value = 1;
  friend constexpr auto operator<=>(Attempt, Attempt) = default;
};

}  // namespace raytrain
