// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <string>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/collective/mpi_session.hpp>
#include <raytrain/core/reduction.hpp>

#include "program.hpp"
#include "ranks.hpp"

auto run_as_rank(CLI::App& app, Options& options, int argc, char** argv) -> int {
  raytrain::MpiSession const session;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // One rank speaks for all, in errors too.
  for (auto* const stream : {stdout, stderr}) {
    if (rank != 0 && std::freopen("/dev/null", "w", stream) == nullptr) return 1;
  }
  std::string transport = "automatic";
  std::string reduction = "automatic";
  raytrain::MpiOptions mpi;
  raytrain::detail::MpiPretence pretence;
  app.add_option("--transport", transport, "of ranks on one host: memory that they share, if they can, or MPI")
      ->check(CLI::IsMember({"automatic", "mpi"}));
  app.add_option("--reduction", reduction, "between hosts: as MPI does it, or in the order of ranks")
      ->check(CLI::IsMember({"automatic", "rank_order"}));
  app.add_flag("--check-calls", mpi.check_calls, "by MPI: compare what the ranks call before every operation");
  app.add_option("--ranks-per-host", pretence.ranks_per_host, "as if no more were on a host; 0: as it is");
  return run_program(app, options, argc, argv, [&] {
    mpi.share_memory = transport == "automatic";
    mpi.reduction = reduction == "automatic" ? raytrain::Reduction::automatic : raytrain::Reduction::rank_order;
    auto const group = std::make_shared<raytrain::MpiGroup>(MPI_COMM_WORLD, mpi, pretence);
    raytrain::MpiCollective collective{group};
    Setting const setting{"MpiCollective", group->size().value,
                          "ranks of an MPI job, by " + std::string{group->transport()}};
    print_head(setting, options);
    auto const rows = run_rank(collective, options);
    if (rank != 0) options.json = options.plot = "";
    return conclude(rows, setting, options);
  });
}
