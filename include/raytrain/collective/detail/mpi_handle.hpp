// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/mpi_ulfm.hpp>

namespace raytrain::detail {

/// A communicator that raytrain has made, or none, and frees. Where the job survives losses it stays until the process
/// ends: MPI would wait for ranks that may be lost.
///
/// Threads: where MPI may be used; `abandon` from any.
class MpiHandle {
 public:
  MpiHandle() = default;
  MpiHandle(MpiHandle const&) = delete;
  auto operator=(MpiHandle const&) -> MpiHandle& = delete;
  ~MpiHandle() {
    int finalized = 1;
    if (communicator_ == MPI_COMM_NULL || abandoned_) return;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0 || mpi_survives_losses()) return;
    MPI_Comm_free(&communicator_);
  }

  [[nodiscard]] auto get() const noexcept -> MPI_Comm { return communicator_; }
  /// To fill it, once.
  [[nodiscard]] auto put() noexcept -> MPI_Comm* { return &communicator_; }

  /// Leaves it to the end of the process: something may be pending in it that cannot be taken back.
  void abandon() noexcept { abandoned_ = true; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace raytrain::detail
