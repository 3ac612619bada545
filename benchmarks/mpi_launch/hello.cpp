// SPDX-License-Identifier: Apache-2.0
// MPI's hello world: prints when the last rank had passed the first barrier, as the clock of the host tells it, which
// is the same for all its processes. Started by mpirun.
#include <chrono>
#include <cstdint>
#include <cstdio>

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

auto main(int argc, char** argv) -> int {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  std::int64_t const here_ns = std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
  std::int64_t last_ns = 0;
  MPI_Reduce(&here_ns, &last_ns, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("{\"ranks\": %d, \"first_step_ns\": %lld}\n", size, static_cast<long long>(last_ns));
  return MPI_Finalize();
}
