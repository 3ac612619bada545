// SPDX-License-Identifier: Apache-2.0
// A process that begins MPI for one thread at a time, as it may do once.
#include <memory>

#include <doctest/doctest.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/testing/collective_refusals.hpp>

TEST_CASE("a collective is not duplicated where MPI allows for one thread at a time, and stays usable") {
  int provided = MPI_THREAD_SINGLE;
  REQUIRE(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS);
  REQUIRE(provided == MPI_THREAD_SERIALIZED);
  {
    raytrain::MpiCollective collective{std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD)};
    CHECK(raytrain::testing::refusal([&] { (void)collective.duplicate(); }) ==
          "invalid_call: duplicate() of an MpiCollective: needs MPI_THREAD_MULTIPLE, since another thread of the "
          "worker uses MPI beside it (MPI was initialised with MPI_THREAD_SERIALIZED); initialise it by "
          "raytrain::MpiSession or MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)");
    collective.barrier();
  }
  MPI_Finalize();
}
