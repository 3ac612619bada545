// SPDX-License-Identifier: Apache-2.0
// What collectives between workers cost on this machine, size by size, in the terms of nccl-tests and the OSU
// benchmarks. Exits with 1 when a result was wrong.
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <raytrain/collective/local.hpp>
#include <raytrain/core/usable_cores.hpp>

#include "cores.hpp"
#include "options.hpp"
#include "program.hpp"
#include "ranks.hpp"

namespace {

auto run_threads(Options const& options) -> std::vector<Row> {
  auto const cores = raytrain::usable_cores();
  auto const group = std::make_shared<raytrain::LocalGroup>(raytrain::WorldSize{options.workers});
  std::vector<Row> rows;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  std::vector<std::jthread> threads;
  for (std::uint32_t worker = 0; worker < options.workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        bind(worker, options.workers, cores);
        raytrain::LocalCollective collective{group, raytrain::Rank{worker}};
        auto mine = run_rank(collective, options);
        if (worker == 0) rows = std::move(mine);
      } catch (...) {
        group->abort();  // the others would wait for ever
        std::scoped_lock const lock{failure_mutex};
        if (!failure) failure = std::current_exception();
      }
    });
  }
  threads.clear();
  if (failure) std::rethrow_exception(failure);
  return rows;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Measures collectives between the workers of one program: threads, or ranks when mpirun starts it."};
  add_options(app, options);
  if (is_rank_of_a_job()) return run_as_rank(app, options, argc, argv);
  app.add_option("--workers", options.workers, "threads of this process; ranks are mpirun's -n")
      ->check(CLI::Range(1U, 4096U));
  return run_program(app, options, argc, argv, [&] {
    Setting const setting{"LocalCollective", options.workers, "threads of one process"};
    print_head(setting, options);
    return conclude(run_threads(options), setting, options);
  });
}
