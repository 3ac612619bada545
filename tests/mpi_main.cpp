// SPDX-License-Identifier: Apache-2.0
// The main function of test programs that run as ranks of an MPI job: rank 0 speaks for all, another one only when a
// test fails on it. RAYTRAIN_TEST_RANKS is how many ranks there must be, since programs that do not find each other are
// jobs of one rank each.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/collective/mpi_session.hpp>

auto main(int argc, char** argv) -> int {
  raytrain::MpiSession const session;
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto const* const wanted = std::getenv("RAYTRAIN_TEST_RANKS");
  if (wanted != nullptr && std::to_string(ranks) != wanted) {
    std::cout << "this is a job of " << ranks << " ranks, not of " << wanted << '\n';
    return 1;
  }

  // All ranks take the same seed.
  std::uint64_t seed = std::random_device{}();
  MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  setenv("RAYTRAIN_TEST_SEED", std::to_string(seed).c_str(), 0);

  std::ostringstream said;
  doctest::Context context{argc, argv};
  context.setOption("no-colors", true);  // mpirun gives its ranks a terminal, whatever its own output is
  if (rank != 0) context.setCout(&said);
  int const status = context.run();
  if (rank != 0 && status != 0) {
    // In one piece, so that ranks do not talk at once.
    std::cout << "=== rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ":\n" + said.str() << std::flush;
  }
  int any_status = status;
  MPI_Allreduce(MPI_IN_PLACE, &any_status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return any_status;
}
