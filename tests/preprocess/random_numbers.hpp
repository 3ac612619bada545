// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace raytrain::testing {

inline constexpr auto missing = std::numeric_limits<double>::quiet_NaN();

/// Numbers about a million, a tenth of them missing.
inline auto random_numbers(std::size_t count, std::mt19937_64& random) -> std::vector<double> {
  std::vector<double> values(count);
  std::normal_distribution<double> normal{1e6, 3};
  for (auto& value : values) value = random() % 10 == 0 ? missing : normal(random);
  return values;
}

}  // namespace raytrain::testing
