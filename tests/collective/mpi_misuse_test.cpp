// SPDX-License-Identifier: Apache-2.0
// A process that begins and ends MPI by itself, which it may do once.

#include <doctest/doctest.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/testing/collective_refusals.hpp>

using raytrain::MpiGroup;
using raytrain::testing::refusal;

TEST_CASE("a group is refused before MPI is initialised, when threads may not use it, and after its end") {
  CHECK(refusal([] { MpiGroup{MPI_COMM_WORLD}; }) ==
        "invalid_call: MpiGroup: MPI is not initialised; make a raytrain::MpiSession first, or call "
        "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)");

  int provided = MPI_THREAD_SINGLE;
  REQUIRE(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
  REQUIRE(provided == MPI_THREAD_FUNNELED);
  {
    // Of somebody else's MPI it is neither the beginning nor the end.
    raytrain::MpiSession const session;
  }
  CHECK(refusal([] { MpiGroup{MPI_COMM_WORLD}; }) ==
        "invalid_call: MpiGroup: needs MPI_THREAD_SERIALIZED, since operations run on the worker's thread (MPI was "
        "initialised with MPI_THREAD_FUNNELED); initialise it by raytrain::MpiSession or MPI_Init_thread(&argc, &argv, "
        "MPI_THREAD_MULTIPLE, &provided)");

  REQUIRE(MPI_Finalize() == MPI_SUCCESS);
  CHECK(refusal([] { MpiGroup{MPI_COMM_WORLD}; }) ==
        "invalid_call: MpiGroup: MPI is finalized already; make the group while MPI is in use");
}
