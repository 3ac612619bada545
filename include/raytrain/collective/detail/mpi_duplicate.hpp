// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include <raytrain/collective/detail/mpi_library.hpp>

namespace raytrain::detail {

/// A duplicate of a communicator for MPI calls of the program's own. What goes wrong in it ends the job, as MPI has it
/// unless it is told otherwise.
///
/// Threads: where MPI may be used; `abandon` from any.
class MpiDuplicate {
 public:
  /// All ranks of `original` call it, and it waits for them.
  explicit MpiDuplicate(MPI_Comm original) {
    check_mpi(MPI_Comm_dup(original, &handle_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_ARE_FATAL), "MPI_Comm_set_errhandler");
  }
  MpiDuplicate(MpiDuplicate const&) = delete;
  auto operator=(MpiDuplicate const&) -> MpiDuplicate& = delete;
  ~MpiDuplicate() {
    int finalized = 1;
    if (!abandoned_ && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Comm_free(&handle_);
  }

  [[nodiscard]] auto handle() const noexcept -> MPI_Comm { return handle_; }

  /// Leaves it to the end of the process: the program may have left something pending in it.
  void abandon() noexcept { abandoned_ = true; }

 private:
  MPI_Comm handle_ = MPI_COMM_NULL;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace raytrain::detail
