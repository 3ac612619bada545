// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/mpi_communicator.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/core/reduction.hpp>

namespace raytrain {

/// How an `MpiGroup` works; but for `limits` the same on every rank.
struct MpiOptions {
  Reduction reduction = Reduction::automatic;  ///< Matters only when the ranks are on several hosts.

  /// Ranks of one host exchange arrays through memory that they share; false: through MPI, as ranks of several do.
  bool share_memory = true;

  /// Where ranks do not share memory: the ranks tell each other what they call before every operation, instead of once
  /// in many, so that ranks that differ get the error before any array is touched. A small operation takes about twice
  /// as long.
  bool check_calls = false;

  WaitLimits limits{};
};

namespace detail {

/// What tests pretend, where it would take more memory or more hosts than they have.
struct MpiPretence {
  std::size_t largest_count = INT_MAX;  ///< Elements of one call of MPI, at least the world size.
  std::uint32_t ranks_per_host = 0;     ///< As if no more were on a host; 0: as it is.
};

}  // namespace detail
}  // namespace raytrain

namespace raytrain::detail {

/// A rank that checks calls while another one does not would wait for ever. All ranks call it.
///
/// Errors: as `options_error`, on every rank.
inline void check_options_agree(MpiCommunicator const& ranks, MpiOptions const& options) {
  std::array<std::pair<char const*, int>, 3> const values{{{"reduction", static_cast<int>(options.reduction)},
                                                           {"share_memory", options.share_memory ? 1 : 0},
                                                           {"check_calls", options.check_calls ? 1 : 0}}};
  for (auto const& [name, value] : values) {
    std::array<int, 2> least{value, -value};
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, least.data(), 2, MPI_INT, MPI_MIN, ranks.handle()), "MPI_Allreduce");
    if (least[0] == -least[1]) continue;
    throw options_error("MpiGroup", std::string{"MpiOptions::"} + name);
  }
}

}  // namespace raytrain::detail
