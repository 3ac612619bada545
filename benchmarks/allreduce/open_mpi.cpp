// SPDX-License-Identifier: Apache-2.0
// Sums of float arrays by MPI_Allreduce, as a program in plain MPI calls it, in turns with MpiCollective on arrays that
// it allocates and on those of the program. Started by mpirun.
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/core/identifiers.hpp>

#include "contest.hpp"
#include "options.hpp"
#include "program.hpp"

namespace {

void by_open_mpi(std::span<float> values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

}  // namespace

auto main(int argc, char** argv) -> int {
  raytrain::MpiSession const session;
  auto const group = std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD);
  raytrain::MpiCollective collective{group};
  auto const rank = collective.rank();
  // One rank speaks for all.
  if (rank != raytrain::Rank{0} && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  Options options;
  CLI::App app{"Measures sums of MPI ranks' arrays, by raytrain and by MPI_Allreduce: started by mpirun."};
  add_contest_options(app, options);
  return run_program(app, options, argc, argv, [&] {
    fmt::print("# by {}\n", group->transport());
    std::vector<Contest> contests;
    for (auto const bytes : options.all_sizes()) {
      std::vector<Contender> const contenders{
          sum_contender("raytrain", collective, collective.allocate<float>(bytes / sizeof(float))),
          sum_contender("raytrain, any arrays", collective, own_array(bytes)),
          sum_contender("Open MPI", rank, collective.size(), own_array(bytes), by_open_mpi)};
      contests.push_back(contest(collective, contenders, options, bytes));
      print(contests.back());
    }
    if (rank == raytrain::Rank{0}) write(contests, options);
    return 0;
  });
}
