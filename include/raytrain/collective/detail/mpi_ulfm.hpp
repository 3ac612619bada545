// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/core/error.hpp>

/// User-Level Failure Mitigation (ULFM): what MPI offers to the ranks that are left when one is lost. Open MPI has it
/// since version 5, in jobs that `mpirun --with-ft ulfm` has started.
namespace raytrain::detail {

/// Whether the job goes on when a rank is lost. MPI must be in use at the first call.
[[nodiscard]] inline auto mpi_survives_losses() -> bool {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  static bool const does = [] {
    void* value = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, static_cast<void*>(&value), &found), "MPI_Comm_get_attr");
    return found != 0 && *static_cast<int const*>(value) != 0;
  }();
  return does;
#else
  return false;
#endif
}

/// Ends what is pending in a communicator, on all its ranks: it fails by `RankIsLost`, and so does all that follows.
inline void mpi_revoke([[maybe_unused]] MPI_Comm communicator) noexcept {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  if (communicator != MPI_COMM_NULL) MPIX_Comm_revoke(communicator);
#endif
}

/// Takes out the requests that are over, be it by an error, and says whether these were all.
[[nodiscard]] inline auto mpi_forget_ended(std::vector<MPI_Request>& requests) noexcept -> bool {
  for (auto& request : requests) {
    int over = 0;
    MPI_Test(&request, &over, MPI_STATUS_IGNORE);  // makes it null then
  }
  std::erase(requests, MPI_REQUEST_NULL);
  return requests.empty();
}

/// The ranks of a communicator that are left, in their order. All of them call it, and wait for each other. It blocks
/// for ever if one does not call it and MPI does not know that it has failed.
///
/// Errors: `backend`.
[[nodiscard]] inline auto mpi_shrink([[maybe_unused]] MPI_Comm communicator) -> MPI_Comm {
#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI
  MPI_Comm left = MPI_COMM_NULL;
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPIX_Comm_shrink(communicator, &left), "MPIX_Comm_shrink");
  return left;
#else
  throw Error{Errc::backend, "going on without a rank that is lost", "this program was built with an MPI that cannot",
              "build it with Open MPI 5 or later"};
#endif
}

}  // namespace raytrain::detail
