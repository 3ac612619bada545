// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <raytrain/collective/mpi_session.hpp>  // the library itself

namespace raytrain {

namespace detail {

/// Whose ranks the next `fit()` trains on.
inline MPI_Comm rank_communicator = MPI_COMM_WORLD;

}  // namespace detail

/// While it lives, `fit()` with `Launch::ranks` trains on the ranks of the program's own communicator instead of those
/// of MPI_COMM_WORLD: some ranks of a simulation, or several trainings side by side, each in a folder of its own.
///
/// All ranks of the communicator have one, and come to `fit()`; ranks and sizes that raytrain speaks of are the
/// communicator's, `is_first_of_job()` apart. The program has initialised MPI, for MPI_THREAD_MULTIPLE if it uses MPI
/// while `fit()` runs, and keeps the communicator as long. `fit()` uses a duplicate of it.
///
/// Threads: the one that calls `fit()`.
class RankCommunicator {
 public:
  explicit RankCommunicator(MPI_Comm communicator) : before_{std::exchange(detail::rank_communicator, communicator)} {}
  RankCommunicator(RankCommunicator const&) = delete;
  auto operator=(RankCommunicator const&) -> RankCommunicator& = delete;
  ~RankCommunicator() { detail::rank_communicator = before_; }

 private:
  MPI_Comm before_;
};

}  // namespace raytrain
