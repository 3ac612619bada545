// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// The ranks of a communicator that are left, in their order, by MPIX_Comm_shrink. All of them call it, and wait for
/// each other. It blocks for ever if one does not call it and MPI does not know that it has failed.
///
/// `lost`: how many ranks are known to have failed.
///
/// Errors: `backend` when others are lost as well, and where this MPI cannot do it.
[[nodiscard]] inline auto surviving_ranks(MPI_Comm communicator, std::size_t lost) -> MPI_Comm {
  int before = 0;
  int left = 0;
  detail::check_mpi(MPI_Comm_size(communicator, &before), "MPI_Comm_size");
  auto const shrunk = detail::mpi_shrink(communicator);
  detail::check_mpi(MPI_Comm_size(shrunk, &left), "MPI_Comm_size");
  if (static_cast<std::size_t>(left) + lost == static_cast<std::size_t>(before)) return shrunk;
  throw Error{Errc::backend, "going on with the ranks that are left",
              std::to_string(left) + " of " + std::to_string(before) + " are, and " + std::to_string(lost) +
                  " were known to be lost"};
}

}  // namespace raytrain
