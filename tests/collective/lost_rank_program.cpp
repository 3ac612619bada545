// SPDX-License-Identifier: Apache-2.0
// A rank is lost while another one is in an operation, to which a third one comes late: what that sends must not come
// into memory that is not the operation's any more. Run by lost_rank.py, as 3 ranks that go on without one.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/core/error.hpp>

int main() {
  raytrain::MpiSession const session;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  raytrain::MpiOptions const options{.share_memory = false,
                                     .limits = {.timeout = std::chrono::seconds{2}, .warn_after = {}}};
  auto const group = std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD, options);
  auto const rank = group->rank().value;
  constexpr std::size_t size = 50'000;
  std::vector<float> const mine(size, 1.0F);
  std::vector<float> all(size * 3);
  int has_failed = 0;
  {
    // Soon ranks compare their calls once in many, and begin to send without.
    raytrain::MpiCollective collective{group};
    for (int i = 0; i < 10; ++i) collective.all_reduce(std::span{all}.first(1), raytrain::ReduceOp::max);
  }
  if (rank == 2) (void)std::raise(SIGKILL);
  // Rank 1 is late: it begins when rank 0 has given up.
  if (rank == 1) MPI_Recv(&has_failed, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  try {
    raytrain::MpiCollective collective{group};
    collective.all_gather(std::span{mine}, std::span{all});
  } catch (raytrain::Error const& error) {
    has_failed = 1;
  }
  bool const may_be_used_again = has_failed == 1 && !group->has_pending();
  std::ranges::fill(all, 7.0F);
  if (rank == 0) MPI_Send(&has_failed, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  {
    // Whatever is under way comes here.
    raytrain::MpiCollective left{
        std::make_shared<raytrain::MpiGroup>(raytrain::detail::mpi_shrink(MPI_COMM_WORLD), options)};
    for (int i = 0; i < 10; ++i) left.barrier();
  }
  auto const changed = std::ranges::count_if(all, [](float value) { return value != 7.0F; });
  std::cout << (may_be_used_again ? "its memory is free" : "it has something pending") << ", and " << changed
            << " elements have changed" << std::endl;
  std::_Exit(0);  // Open MPI 5's MPI_Finalize was seen to wait for the lost rank
}
