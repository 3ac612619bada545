// SPDX-License-Identifier: Apache-2.0
// A user's program with MPI: the ranks add up their numbers.
#include <cstdint>
#include <cstdio>
#include <memory>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>

auto main() -> int {
  raytrain::MpiSession const session;
  raytrain::MpiCollective collective{std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD)};
  auto const numbers = collective.allocate<std::int64_t>(100);
  for (auto& number : numbers) number = 1 + collective.rank().value;
  collective.all_reduce(numbers.span(), raytrain::ReduceOp::sum);
  auto const ranks = collective.size().value;
  if (collective.rank() == raytrain::Rank{0}) std::printf("%u ranks, sum %d\n", ranks, static_cast<int>(numbers[99]));
  return ranks == 2 && numbers[0] == 3 && numbers[99] == 3 ? 0 : 1;
}
