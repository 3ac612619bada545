// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/backend/mpi/mpi_context.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/mpi.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

namespace detail {
struct GroupOfContext {
  [[nodiscard]] static auto get(MpiContext const& ctx) noexcept -> CollectiveGroup* { return ctx.group_.get(); }
};
}  // namespace detail

/// The workers as an MPI communicator, for MPI calls of the program's own, which do not mix with raytrain's: a
/// duplicate, with the workers' ranks. It belongs to the training and ends with it; each call gives the same one.
///
/// An MPI call that waits for a rank which does not come waits until mpirun ends the job, unlike one of
/// `ctx.collective()`. Errors in it end the job, unless MPI_Comm_set_errhandler is told otherwise.
///
/// Threads: the worker's own, during the training function; others only where MPI_Query_thread gives
///          MPI_THREAD_MULTIPLE, which raytrain asks for.
/// Errors:  `invalid_call` on threads.
[[nodiscard]] inline auto communicator(MpiContext const& ctx) -> MPI_Comm {
  auto const* const group = dynamic_cast<MpiGroup const*>(detail::GroupOfContext::get(ctx));
  if (group != nullptr) return group->communicator();
  throw Error{Errc::invalid_call, "raytrain::communicator", "the workers are threads of one process, not ranks of MPI",
              "start the program by mpirun, as 2 ranks or more or with Launch::ranks; or use ctx.collective(), which "
              "works on both"};
}

}  // namespace raytrain
