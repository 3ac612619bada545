// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "ranks.hpp"

auto run_as_rank(CLI::App&, Options&, int, char**) -> int {
  std::fputs("started by mpirun, but built without MPI: install libopenmpi-dev and build again\n", stderr);
  return 1;
}
