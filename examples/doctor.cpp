// Says what this machine and this job offer to a training, and what slows it: what a report of a problem should hold.
// Run ./examples/run doctor, or mpirun -n 4 build/examples/doctor, or srun --mpi=pmix -n 4 build/examples/doctor.
#include <cstddef>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/core/process.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>
#include <raytrain/version.hpp>

#include "doctor/blas.hpp"
#include "doctor/exchange.hpp"
#include "doctor/findings.hpp"
#include "doctor/gpu.hpp"
#include "doctor/host.hpp"
#include "doctor/mpi.hpp"
#include "doctor/storage.hpp"

namespace {

struct Options {
  int workers = 0;
  std::filesystem::path storage = "runs";
  std::size_t checkpoint_size = 64;
};

auto compiler() -> std::string {
#if defined(__clang__)
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("g++ {}", __VERSION__);
#endif
}

void examine_program(Findings& findings) {
  auto const job = raytrain::job_environment();
  findings.say("raytrain", fmt::format("{}, compiled by {}{}", raytrain::version, compiler(),
#if defined(__OPTIMIZE__)
                                       ""
#else
                                       " without optimization"
#endif
                                       ));
#if !defined(__OPTIMIZE__)
  findings.advise("this program was compiled without optimization: build with -O2");
#endif
  findings.say("Job", job ? fmt::format("{} ranks of {}", job->size.value, job->launcher)
                          : std::string{"none: this process, with threads as workers"});
}

// The job's control plane, on rank 0.
void examine_control(raytrain::MpiContext& ctx, bool on_ranks, Findings& findings) {
  auto const on_one_host = ctx.local_world_size() == ctx.world_size();
  if (!on_ranks) return findings.say("Control", "inside of this process");
  auto const wanted = raytrain::wanted_interface();
  findings.say("Control", fmt::format("rank 0 listens on {}{}{}", raytrain::control_address(on_one_host),
                                      on_one_host ? " and a Unix socket" : "",
                                      wanted.empty() ? "" : " (RAYTRAIN_INTERFACE=" + wanted + ")"));
  if (!on_one_host && wanted.empty() && raytrain::network_interfaces().size() > 1) {
    findings.advise(
        fmt::format("this host has several networks, and rank 0 listens on the first ({}): where that is not "
                    "the fastest one, name it by RAYTRAIN_INTERFACE",
                    raytrain::control_address(false)));
  }
}

// Runs on every worker; rank 0 learns what all have found before anything that may fail.
void examine(raytrain::MpiContext& ctx, Options const& options, std::vector<Findings>& by_rank) {
  auto const job = raytrain::job_environment();
  auto const on_ranks = job && job->size.value > 1;
  auto const is_first = ctx.world_rank() == raytrain::Rank{0};
  Findings findings;
  findings.hostname = raytrain::host_name();
  findings.speaks_for_host = ctx.local_rank() == raytrain::Rank{0};
  if (is_first) examine_program(findings);
  if (findings.speaks_for_host) examine_processor(findings);
  if (on_ranks || is_first) examine_cores(ctx.local_world_size().value, ctx.cpus(), job.has_value(), findings);
  if (findings.speaks_for_host) examine_blas(findings);
  examine_mpi(ctx, findings);
  if (is_first) examine_control(ctx, on_ranks, findings);
  if (findings.speaks_for_host) {
    examine_network(findings);
    examine_gpus(findings);
    examine_storage(ctx.run_path(), findings);
  }
  if (is_first && on_ranks) examine_limits(ctx.world_size().value, findings);
  if (on_ranks || is_first) examine_environment(findings);
  auto all = ctx.all_gather(findings);
  if (is_first) by_rank = std::move(all);

  Findings measured;
  examine_exchange(ctx, measured);
  examine_checkpoints(ctx, options.checkpoint_size, measured);
  if (is_first) by_rank.front().add(measured);
}

auto run(Options const& options) -> int {
  auto const is_first = raytrain::is_first_of_job();
  raytrain::TrainerConfig<raytrain::MpiBackend> config{
      .run = {.name = "doctor",
              .storage_path = options.storage,
              .checkpoint = {.num_to_keep = 1, .mode = raytrain::CheckpointMode::sync},
              .resume = raytrain::Resume::fresh}};
  auto const job = raytrain::job_environment();
  auto const cores = static_cast<int>(raytrain::usable_cores().size());
  auto const is_new = !std::filesystem::exists(std::filesystem::symlink_status(options.storage));
  if (options.workers > 0) {
    config.scaling.num_workers = options.workers;
  } else if (!job || job->size.value == 1) {
    config.scaling.num_workers = cores;
  }
  std::vector<Findings> by_rank;
  std::string problem;
  try {
    raytrain::Trainer<raytrain::MpiBackend> trainer{[&](raytrain::MpiContext& ctx) { examine(ctx, options, by_rank); },
                                                    config};
    auto const result = trainer.fit();
    if (is_first && !by_rank.empty()) {  // empty where it was stopped before
      by_rank.front().say("Start",
                          fmt::format("{:.1f} ms from fit() until all workers run", 1e3 * result.timings.to_workers_s));
    }
    if (is_first) {
      std::error_code ignored;
      std::filesystem::remove_all(result.path, ignored);
      if (is_new) std::filesystem::remove(options.storage, ignored);  // where nothing else is in it
    }
    if (result.state == raytrain::RunState::aborted) return 130;
  } catch (std::exception const& error) {
    problem = error.what();
  }
  if (is_first && !by_rank.empty()) fmt::print("{}", Report{std::move(by_rank)}.text());
  if (is_first && !problem.empty()) fmt::print(stderr, "\nThis job cannot train:\n{}\n", problem);
  return problem.empty() ? 0 : 1;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Says what this machine and this job offer to a training, and what slows it."};
  app.option_defaults()->always_capture_default();
  app.add_option("--workers", options.workers, "threads; 0: one per core, or the ranks of the job")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--storage", options.storage, "folder that checkpoints would go to");
  app.add_option("--checkpoint-size", options.checkpoint_size, "MiB that are written there once, and deleted")
      ->check(CLI::Range(1, 1 << 20));
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
