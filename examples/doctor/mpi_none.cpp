#include "mpi.hpp"

void examine_mpi(raytrain::MpiContext&, Findings& findings) {
  findings.say("MPI", "not built with it: needs libopenmpi-dev, openmpi-bin");
}
