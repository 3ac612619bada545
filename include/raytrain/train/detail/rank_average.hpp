// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/metrics.hpp>

namespace raytrain::detail {

/// The mean of all ranks' values, each counted `samples` times; the sum is in rank order. Where those that count are
/// the same it is that value. NaN without any. A group operation.
///
/// Errors: `invalid_call` on all ranks for negative `samples`.
[[nodiscard]] auto average_over_ranks(Collective& collective, double value, double samples) -> double;

/// The same for each double; other values are the same on all ranks, and stay.
///
/// Errors: also `rank_mismatch` on all ranks for other metrics or other such values.
[[nodiscard]] auto average_over_ranks(Collective& collective, Metrics const& metrics, double samples) -> Metrics;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/rank_average-inl.hpp>
#endif
