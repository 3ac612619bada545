// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <utility>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/mpi_communicator.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/mpi_options.hpp>

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
