// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/metrics.hpp>

namespace raytrain::detail {

/// The mean, rounded toward zero. `values`: at least one, and fewer than 2^31.
template <std::integral T>
[[nodiscard]] constexpr auto mean_of(std::span<T const> values) noexcept -> T {
  using Wide = std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>;
  auto const count = static_cast<Wide>(values.size());
  Wide mean = 0;
  Wide rest = 0;  // that the sum of all has beside `mean * count`, which may be more than a number holds
  for (auto const value : values) {
    mean += static_cast<Wide>(value) / count;
    rest += static_cast<Wide>(value) % count;
  }
  mean += rest / count;
  rest %= count;
  // Where the rest has the other sign, the mean is one step nearer to zero.
  if (mean > 0 && rest < 0) --mean;
  if (mean < 0 && rest > 0) ++mean;
  return static_cast<T>(mean);
}

/// The mean of all ranks' values, rounded toward zero. A group operation.
template <std::integral T>
[[nodiscard]] auto average_over_ranks(Collective& collective, T value) -> T {
  std::vector<T> all(collective.size().value);
  collective.all_gather(std::span<T const>{&value, 1}, std::span<T>{all});
  return mean_of(std::span<T const>{all});
}

/// One rank's value.
struct RankValue {
  double value{};
  double samples{};  ///< How often it counts.
};

/// The mean of all ranks' values, each counted `samples` times; the sum is in rank order. Where those that count are
/// the same it is that value. NaN without any. A group operation.
///
/// Errors: `invalid_call` on all ranks for negative `samples`.
[[nodiscard]] auto average_over_ranks(Collective& collective, RankValue const& own) -> double;

/// The same for each double; other values are the same on all ranks, and stay.
///
/// Errors: also `rank_mismatch` on all ranks for other metrics or other such values.
[[nodiscard]] auto average_over_ranks(Collective& collective, Metrics const& metrics, double samples) -> Metrics;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/rank_average-inl.hpp>
#endif
