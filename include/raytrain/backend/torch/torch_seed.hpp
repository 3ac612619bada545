// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace raytrain::detail {

/// A seed that is unrelated to those of other `stream`s of the same run.
///
/// Source: the mixing function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).
[[nodiscard]] constexpr auto stream_seed(std::uint64_t seed, std::uint64_t stream) noexcept -> std::uint64_t {
  auto mixed = seed + 0x9e3779b97f4a7c15 * (stream + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31);
}

}  // namespace raytrain::detail
