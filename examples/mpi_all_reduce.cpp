// SPDX-License-Identifier: Apache-2.0
// Averages an array over the ranks of an MPI job, through memory on one host and through the network between hosts.
// Run ./examples/run mpi_all_reduce and expect "2 ranks, average 0.5, through memory that all ranks share".
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>

int main() {
  raytrain::MpiSession const session;  // begins MPI, and ends it when main does
  auto const group = std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD);
  raytrain::MpiCollective collective{group};
  auto const rank = collective.rank().value, ranks = collective.size().value;

  auto const values = collective.allocate<float>(1 << 20);  // in memory that the ranks of a host share
  std::ranges::fill(values, static_cast<float>(rank));
  collective.all_reduce(values.span(), raytrain::ReduceOp::average);

  auto const average = static_cast<float>(ranks - 1) / 2;
  if (rank == 0) fmt::print("{} ranks, average {}, through {}\n", ranks, values[0], group->transport());
  return std::ranges::all_of(values, [=](float value) { return value == average; }) ? 0 : 1;
}
