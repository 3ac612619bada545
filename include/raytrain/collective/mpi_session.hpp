// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>

namespace raytrain {

/// MPI from its initialisation to its end, for a program that does neither itself. Where MPI is initialised already,
/// it is left to whoever did so.
///
/// Threads: the main one.
class MpiSession {
 public:
  /// Errors: `backend` when MPI cannot be initialised, as after its end, or not for operations on other threads.
  MpiSession() {
    int initialized = 0;
    detail::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
    int finalized = 0;
    detail::check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
    if (finalized != 0) {
      throw Error{Errc::backend, "MPI_Init_thread", "MPI was ended before, and begins only once",
                  "keep one raytrain::MpiSession for the whole program"};
    }
    if (initialized != 0) return;
    int provided = MPI_THREAD_SINGLE;
    detail::check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    owns_ = true;
    if (provided >= MPI_THREAD_SERIALIZED) return;
    MPI_Finalize();
    throw Error{Errc::backend, "MPI_Init_thread",
                "this MPI offers no more than " + std::string{detail::thread_level_name(provided)} +
                    ", and MPI_THREAD_SERIALIZED is needed",
                "use an MPI that was built with support for threads"};
  }
  MpiSession(MpiSession const&) = delete;
  auto operator=(MpiSession const&) -> MpiSession& = delete;

  /// Waits for all ranks of the job; not in a forked child, which is none.
  ~MpiSession() {
    int finalized = 0;
    if (owns_ && generation_ == detail::fork_generation() && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0)
      MPI_Finalize();
  }

 private:
  bool owns_ = false;
  std::uint32_t generation_ = detail::fork_generation();
};

}  // namespace raytrain
