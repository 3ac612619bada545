// A backend of one's own: each worker draws from a generator of its own, whose state is part of every checkpoint.
// Run ./examples/run own_backend and expect "pi = 3.14"; run it again, and it finds nothing left to do.
#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <raytrain/trainer.hpp>

struct RandomConfig {  // what TrainerConfig::backend holds: an aggregate
  std::uint64_t stream = 0;
};

class RandomContext : public raytrain::TrainContext {  // what the training function receives
 public:
  RandomContext(raytrain::WorkerSetup setup, RandomConfig const& config)
      : TrainContext{std::move(setup)}, random{seed() + 1000 * config.stream + world_rank().value} {}

  auto save() const -> raytrain::CheckpointDraft {
    std::ostringstream state;
    state << random;
    raytrain::CheckpointDraft draft;
    draft.add("random.txt", state.str()).per_rank();  // rank_0000/random.txt and so on
    return draft;
  }

  auto restore() -> int {  // the round to begin with
    if (!checkpoint()) return 0;
    auto const bytes = checkpoint()->read(fmt::format("rank_{:04}/random.txt", world_rank().value));
    std::istringstream{std::string{raytrain::text_of(bytes)}} >> random;
    return static_cast<int>(checkpoint()->training_iteration());
  }

  std::mt19937_64 random;
};

class RandomBackend {
 public:
  using Config = RandomConfig;
  using Context = RandomContext;
  static constexpr std::string_view name = "random";  // part of a run's identity
  static constexpr raytrain::Launch default_launch = raytrain::Launch::threads;

  explicit RandomBackend(Config const& config) : config_{config} {}
  void on_start(raytrain::ScalingConfig const&) {}  // caller's thread, before any worker; may throw to refuse
  auto make_context(raytrain::WorkerSetup setup) -> Context { return {std::move(setup), config_}; }  // worker's thread
  void on_shutdown() noexcept {}  // after the last worker, unless the process is ended

  struct Params {  // optional: what a ready-made training takes, as Trainer<RandomBackend>{Params{...}, {...}}
    int rounds = 20;
    int darts = 100'000;
    void validate() const {
      if (rounds >= 1 && darts >= 1) return;
      throw raytrain::Error{raytrain::Errc::invalid_config, "RandomBackend::Params",
                            fmt::format("rounds and darts must be at least 1 (got {} and {})", rounds, darts)};
    }
  };
  static void train(Context& ctx, Params const& params);
  static auto trains_in_one_worker(Config const&) -> bool { return false; }  // on threads, too, every worker trains

 private:
  Config config_;
};
static_assert(raytrain::ReadyMadeBackend<RandomBackend>);

struct Round {
  double pi = 0;
  void serialize(auto& a) { a(CEREAL_NVP(pi)); }
};

void RandomBackend::train(Context& ctx, Params const& params) {
  std::uniform_real_distribution<double> side{-1, 1};
  for (auto round = ctx.restore(); round < params.rounds; ++round) {
    auto inside = 0.0;
    for (auto dart = 0; dart < params.darts; ++dart) inside += std::hypot(side(ctx.random), side(ctx.random)) < 1;
    inside = ctx.average(inside);
    ctx.report(Round{4 * inside / params.darts}, ctx.save());
  }
}

auto main() -> int {
  raytrain::TrainerConfig<RandomBackend> config{.run = {.checkpoint = {.num_to_keep = 2}}, .backend = {.stream = 1}};
  if (!raytrain::job_environment()) config.scaling.num_workers = 2;  // threads; a job has its ranks
  auto const result = raytrain::Trainer<RandomBackend>{RandomBackend::Params{}, config}.fit();
  if (result.state == raytrain::RunState::aborted) return 75;  // stopped: run again, it goes on
  auto mean = 0.0, rounds = 0.0;
  for (auto const& report : result.history) {
    mean += raytrain::metrics_cast<Round>(report.metrics).pi;
    ++rounds;
  }
  mean /= rounds;
  if (raytrain::is_first_of_job())
    fmt::print("pi = {:.2f}, from {} rounds kept in {}\n", mean, rounds, result.path.string());
  return std::abs(mean - 3.14159) < 0.01 ? 0 : 1;
}
