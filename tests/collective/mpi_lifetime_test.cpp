// SPDX-License-Identifier: Apache-2.0
// A process that begins and ends MPI by itself, which it may do once.
#include <memory>

#include <doctest/doctest.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/testing/collective_refusals.hpp>

TEST_CASE("a session begins MPI for any thread and ends it once, and a group may outlive it") {
  auto session = std::make_unique<raytrain::MpiSession>();
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  CHECK(level >= MPI_THREAD_SERIALIZED);
  auto const group = std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD);
  raytrain::MpiCollective collective{group};
  collective.barrier();
  { raytrain::MpiSession const another; }
  int finalized = 1;
  MPI_Finalized(&finalized);
  CHECK(finalized == 0);

  session.reset();
  MPI_Finalized(&finalized);
  CHECK(finalized != 0);
  CHECK(raytrain::testing::refusal([] { raytrain::MpiSession{}; }) ==
        "backend: MPI_Init_thread: MPI was ended before, and begins only once; "
        "keep one raytrain::MpiSession for the whole program");
}
