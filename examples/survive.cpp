// Trains while its own workers fail again and again, and compares the result with an undisturbed training's, bit for
// bit. Run ./examples/run survive, with --processes or --ranks 2 as well, and expect a line for each failure and "the
// same bits" at the end.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/testing/fault_schedule.hpp>
#include <raytrain/trainer.hpp>

using raytrain::testing::Fault;
using raytrain::testing::Moment;

struct Options {
  std::uint64_t seed = 1;
  int failures = 5;
  int epochs = 60;
  int workers = 2;
  bool processes = false;
  int ranks = 0;
};

struct Epoch {
  int epoch = 0;
  double error = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(error)); }
};

struct TimeLine : raytrain::Callback {
  void on_restart(raytrain::AttemptInfo const& before, std::optional<raytrain::Checkpoint> const& from) override {
    auto const& reasons = before.failures.empty() ? before.preemptions : before.failures;
    auto const after =
        from ? fmt::format("after report {}", from->training_iteration()) : std::string{"at the beginning"};
    fmt::print("attempt {} ended after {:5.1f} ms by {}; the next one goes on {}, {} reports and {:.1f} ms are lost\n",
               before.attempt.value, 1e3 * before.total_s, raytrain::TrainingFailed::describe(reasons), after,
               before.lost_reports, 1e3 * before.lost_s);
  }
};

struct Interrupted {};

auto launch_of(Options const& options) -> raytrain::Launch {
  return options.ranks > 0   ? raytrain::Launch::mpirun
         : options.processes ? raytrain::Launch::processes
                             : raytrain::Launch::automatic;
}

// The first `failures` attempts fail; processes are killed, crash, stand still and are pre-empted, too.
auto schedule_of(Options const& options, int failures) -> raytrain::testing::FaultSchedule {
  std::vector faults{Fault::exception, Fault::bad_alloc, Fault::mismatched_collective};
  if (launch_of(options) != raytrain::Launch::automatic)
    faults.insert(faults.end(), {Fault::kill, Fault::segmentation_fault, Fault::abort, Fault::stop, Fault::preempt});
  return {options.seed,
          {.launch = launch_of(options), .failures = failures, .faults = faults, .moments = {Moment::step}}};
}

// Fits a plane to points that each worker makes of its rank. `failures` of the attempts fail.
auto fit(Options const& options, std::string const& name, int failures) -> std::vector<float> {
  auto const schedule = schedule_of(options, failures);
  auto const train = [=](raytrain::MpiContext& ctx) {
    raytrain::testing::FaultyWorker faults{schedule, ctx};
    std::mt19937_64 points{ctx.world_rank().value};
    std::vector<float> weights(3);
    for (auto epoch = ctx.restore({{"weights", weights}}); epoch < options.epochs; ++epoch) {
      std::vector<float> gradient(3);
      points.seed(static_cast<std::uint64_t>(epoch) * ctx.world_size().value + ctx.world_rank().value);
      auto error = 0.0;
      for (int i = 0; i < 1000; ++i) {
        std::array const point{static_cast<float>(points() % 100) / 100, static_cast<float>(points() % 100) / 100,
                               1.0F};
        auto const z = 3 * point[0] - 2 * point[1] + 0.5F;
        auto const off = std::inner_product(point.begin(), point.end(), weights.begin(), -z);
        for (std::size_t k = 0; k < 3; ++k) gradient[k] += off * point[k] / 1000;
        error += off * off;
      }
      faults.at(Moment::step);
      ctx.average(gradient);
      for (std::size_t k = 0; k < 3; ++k) weights[k] -= gradient[k];
      ctx.report(Epoch{epoch, ctx.average(error)}, raytrain::save({{"weights", weights}}));
    }
  };
  raytrain::TrainerConfig<raytrain::MpiBackend> config{.run = {.name = name,
                                                               .checkpoint = {.num_to_keep = 2},
                                                               .failure = {.max_failures = failures},
                                                               .resume = raytrain::Resume::fresh},
                                                       .callbacks = {std::make_shared<TimeLine>()}};
  if (!raytrain::job_environment() || raytrain::is_worker_process())
    config.scaling.num_workers = options.workers;  // a job has its ranks
  config.scaling.launch = launch_of(options);
  if (options.ranks > 0) config.scaling.num_workers = options.ranks;
  auto const result = raytrain::Trainer<raytrain::MpiBackend>{train, config}.fit();
  if (result.state == raytrain::RunState::aborted) throw Interrupted{};
  if (result.attempts.size() <= static_cast<std::size_t>(failures)) {
    throw std::runtime_error{
        fmt::format("there were {} failures until the end: raise --epochs", result.attempts.size() - 1)};
  }
  std::vector<float> weights(3);
  raytrain::load(result.checkpoint().value(), {{"weights", weights}});
  return weights;
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Trains while its own workers fail, and compares the result with an undisturbed training's."};
  app.option_defaults()->always_capture_default();
  app.add_option("--seed", options.seed, "who fails, and when, follows from it")->check(CLI::Range(0, 1'000'000));
  app.add_option("--failures", options.failures, "FailureConfig::max_failures")->check(CLI::Range(0, 1000));
  app.add_option("--epochs", options.epochs, "of both trainings")->check(CLI::Range(1, 1'000'000));
  auto* const workers = app.add_option("--workers", options.workers, "threads or processes, where there are no ranks")
                            ->check(CLI::Range(1, 4096));
  auto* const processes = app.add_flag("--processes", options.processes,
                                       "workers are processes: they are killed, crash and are stopped, too");
  app.add_option("--ranks", options.ranks, "workers are so many ranks of MPI jobs that this program starts, likewise")
      ->check(CLI::Range(0, 4096))
      ->excludes(processes, workers);
  CLI11_PARSE(app, argc, argv);
  try {
    auto const disturbed = fit(options, "survive", options.failures), whole = fit(options, "survive-undisturbed", 0);
    if (raytrain::is_first_of_job()) {
      fmt::print("z = {:.3f} x + {:.3f} y + {:.3f}, {}\n", disturbed[0], disturbed[1], disturbed[2],
                 disturbed == whole ? "the same bits as without a failure" : "not what it is without a failure");
    }
    return disturbed == whole ? 0 : 1;
  } catch (Interrupted const&) {
    return 130;  // stopped: not 75, since the next start begins anew
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
