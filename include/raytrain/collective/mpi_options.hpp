// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <climits>
#include <cstddef>

#include <raytrain/collective/reduction.hpp>
#include <raytrain/collective/wait_limits.hpp>

namespace raytrain {

/// How an `MpiGroup` works; but for `limits` the same on every rank.
struct MpiOptions {
  Reduction reduction = Reduction::automatic;  ///< Matters only when the ranks are on several hosts.

  /// Before every operation, the ranks tell each other what they call: ranks that differ get an error instead of a
  /// hang or a wrong result, and an error for a timeout names who is missing. A small operation takes about twice as
  /// long.
  bool check_calls = false;

  WaitLimits limits{};
};

namespace detail {

/// What tests pretend, where it would take more memory or more hosts than they have.
struct MpiPretence {
  std::size_t largest_count = INT_MAX;  ///< Elements of one call of MPI, at least the world size.
  bool one_host_each = false;           ///< As if every rank were alone on its host.
};

}  // namespace detail
}  // namespace raytrain
