// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/backend.hpp>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

using raytrain::testing::TemporaryFolder;

namespace {

using namespace raytrain;

// One archetype per requirement of the concept, each lacking just that one.
struct Whole {
  struct Config {};
  using Context = TrainContext;
  static constexpr std::string_view name = "whole";
  static constexpr Launch default_launch = Launch::threads;
  explicit Whole(Config const&) {}
  void on_start(ScalingConfig const&) {}
  auto make_context(WorkerSetup setup) -> Context { return Context{std::move(setup)}; }
  void on_shutdown() noexcept {}
};
struct ConfigIsNoAggregate : Whole {
  class Config {
   public:
    Config() = default;
    explicit Config(int) {}
  };
  explicit ConfigIsNoAggregate(Config const&) : Whole{Whole::Config{}} {}
};
struct ContextIsForeign : Whole {
  struct Context {};
  using Whole::Whole;
  auto make_context(WorkerSetup) -> Context { return {}; }
};
struct NotMadeFromConfig : Whole {
  NotMadeFromConfig() : Whole{Config{}} {}
};
struct NameIsANumber : Whole {
  using Whole::Whole;
  static constexpr int name = 1;
};
struct LaunchIsText : Whole {
  using Whole::Whole;
  static constexpr std::string_view default_launch = "threads";
};
struct OnStartTakesNothing : Whole {
  using Whole::Whole;
  void on_start() {}
};
struct ContextByReference : Whole {
  using Whole::Whole;
  auto make_context(WorkerSetup) -> Context&;
};
struct ShutdownMayThrow : Whole {
  using Whole::Whole;
  void on_shutdown() {}
};
static_assert(Backend<Whole> && !Backend<ConfigIsNoAggregate> && !Backend<ContextIsForeign> &&
              !Backend<NotMadeFromConfig> && !Backend<NameIsANumber> && !Backend<LaunchIsText> &&
              !Backend<OnStartTakesNothing> && !Backend<ContextByReference> && !Backend<ShutdownMayThrow>);

// The same for what a backend may have.
struct Calling : Whole {
  using Whole::Whole;
  void call(auto const& training) const { training(); }
};
struct CallTakesNothing : Whole {
  using Whole::Whole;
  void call() const {}
};
struct CallReturnsText : Whole {
  using Whole::Whole;
  auto call(auto const&) const -> std::string { return {}; }
};
struct CallingNoBackend {
  void call(auto const& training) const { training(); }
};
static_assert(CallingBackend<Calling> && !CallingBackend<Whole> && !CallingBackend<CallTakesNothing> &&
              !CallingBackend<CallReturnsText> && !CallingBackend<CallingNoBackend>);

struct ReadyMade : Whole {
  using Whole::Whole;
  struct Params {
    void validate() const {}
  };
  static void train(Context&, Params const&) {}
  static auto trains_in_one_worker(Config const&) -> bool { return true; }
};
struct ParamsCannotBeCopied : ReadyMade {
  using ReadyMade::ReadyMade;
  struct Params : ReadyMade::Params {
    Params(Params const&) = delete;
  };
};
struct ParamsNotValidated : ReadyMade {
  using ReadyMade::ReadyMade;
  struct Params {};
  static void train(Context&, Params const&) {}
};
struct ValidateReturnsBool : ReadyMade {
  using ReadyMade::ReadyMade;
  struct Params : ReadyMade::Params {
    auto validate() const -> bool { return true; }
  };
};
struct TrainTakesNoParams : ReadyMade {
  using ReadyMade::ReadyMade;
  static void train(Context&) {}
};
struct TrainIsNotStatic : ReadyMade {
  using ReadyMade::ReadyMade;
  void train(Context&, Params const&) {}
};
struct TrainReturnsBool : ReadyMade {
  using ReadyMade::ReadyMade;
  static auto train(Context&, Params const&) -> bool { return true; }
};
struct DoesNotSayHowManyTrain : Whole {
  using Whole::Whole;
  using Params = ReadyMade::Params;
  static void train(Context&, Params const&) {}
};
struct SaysHowManyTrainInANumber : ReadyMade {
  using ReadyMade::ReadyMade;
  static auto trains_in_one_worker(Config const&) -> int { return 1; }
};
struct ReadyMadeButNoBackend : ReadyMade {
  using ReadyMade::ReadyMade;
  static constexpr int name = 1;
};
static_assert(ReadyMadeBackend<ReadyMade> && !ReadyMadeBackend<Whole> && !ReadyMadeBackend<ParamsCannotBeCopied> &&
              !ReadyMadeBackend<ParamsNotValidated> && !ReadyMadeBackend<ValidateReturnsBool> &&
              !ReadyMadeBackend<TrainTakesNoParams> && !ReadyMadeBackend<TrainIsNotStatic> &&
              !ReadyMadeBackend<TrainReturnsBool> && !ReadyMadeBackend<DoesNotSayHowManyTrain> &&
              !ReadyMadeBackend<SaysHowManyTrainInANumber> && !ReadyMadeBackend<ReadyMadeButNoBackend>);

/// What each worker of a training had, and what `on_start` was told.
struct Seen {
  std::mutex mutex;
  std::vector<std::string> workers;
  std::string started;
};
Seen* seen = nullptr;

struct InOneWorker : testing::MinimalBackend {
  struct Config {
    bool one = true;
  };
  struct Params {
    void validate() const {}
  };
  explicit InOneWorker(Config const&) : MinimalBackend{{}} {}
  void on_start(ScalingConfig const& scaling) {
    seen->started =
        std::to_string(scaling.world_size().value) + " x " + std::to_string(scaling.resources_per_worker.cpus);
  }
  static void train(TrainContext& ctx, Params const&) {
    std::lock_guard const lock{seen->mutex};
    seen->workers.push_back("rank " + std::to_string(ctx.world_rank().value) + " of " +
                            std::to_string(ctx.world_size().value) + " with " + std::to_string(ctx.cpus()));
  }
  static auto trains_in_one_worker(Config const& config) -> bool { return config.one; }
};

auto in_one_worker(TemporaryFolder const& folder, bool one) -> TrainerConfig<InOneWorker> {
  return {.scaling = {.num_workers = 3, .resources_per_worker = {.cpus = 2}},
          .run = {.name = "r", .storage_path = folder.path()},
          .backend = {.one = one}};
}

std::vector<std::string> calls;

struct Recording : testing::MinimalBackend {
  struct Config {
    bool refuse = false;
  };
  explicit Recording(Config const& config) : MinimalBackend{{}}, refuse_{config.refuse} {}

  void on_start(ScalingConfig const&) {
    calls.emplace_back("start");
    if (refuse_) throw Error{Errc::backend, "starting", "no device", "plug one in"};
  }
  auto make_context(WorkerSetup setup) -> Context {
    calls.emplace_back("context");
    return Context{std::move(setup)};
  }
  void on_shutdown() noexcept { calls.emplace_back("shutdown"); }

 private:
  bool refuse_;
};

}  // namespace

TEST_CASE("a backend's hooks run in order: start, each worker's context, shutdown") {
  TemporaryFolder const folder;
  calls.clear();
  Trainer<Recording>{[](TrainContext&) {}, {.run = {.name = "r", .storage_path = folder.path()}}}.fit();
  CHECK(calls == std::vector<std::string>{"start", "context", "shutdown"});
}

TEST_CASE("a backend's shutdown runs when the training or its start fails") {
  TemporaryFolder const folder;
  calls.clear();
  Trainer<Recording> failing{[](TrainContext&) { throw std::runtime_error{"x"}; },
                             {.run = {.name = "r", .storage_path = folder.path()}}};
  CHECK_THROWS_AS(failing.fit(), TrainingFailed);
  CHECK(calls.back() == "shutdown");
  calls.clear();
  Trainer<Recording> refused{[](TrainContext&) {},
                             {.run = {.name = "s", .storage_path = folder.path()}, .backend = {.refuse = true}}};
  CHECK_THROWS_WITH_AS(refused.fit(), "starting: no device; plug one in", Error);
  CHECK(calls == std::vector<std::string>{"start", "shutdown"});
  CHECK_FALSE(std::filesystem::exists(folder.path() / "s"));
}

TEST_CASE(
    "a ready-made training for one worker has the cores of all on threads, and a function of the user's has all") {
  for (int const training : {0, 1, 2}) {
    CAPTURE(training);
    TemporaryFolder const folder;
    Seen here;
    seen = &here;
    auto const with = in_one_worker(folder, training != 1);
    auto trainer = training == 2 ? Trainer<InOneWorker>{[](TrainContext& ctx) { InOneWorker::train(ctx, {}); }, with}
                                 : Trainer<InOneWorker>{InOneWorker::Params{}, with};
    trainer.fit();
    std::ranges::sort(here.workers);
    CHECK(here.started == (training == 0 ? "1 x 6" : "3 x 2"));
    CHECK(here.workers ==
          (training == 0 ? std::vector<std::string>{"rank 0 of 1 with 6"}
                         : std::vector<std::string>{"rank 0 of 3 with 2", "rank 1 of 3 with 2", "rank 2 of 3 with 2"}));
  }
}

TEST_CASE("the context of every backend replicates, averages, sums and compares arrays and numbers") {
  TemporaryFolder const folder;
  Trainer<testing::MinimalBackend>{[](TrainContext& ctx) {
                                     auto const rank = static_cast<int>(ctx.world_rank().value);
                                     std::vector<int> values{rank, 7};
                                     ctx.replicate(values, Rank{2});
                                     CHECK(values == std::vector<int>{2, 7});
                                     std::vector<float> gradient{static_cast<float>(rank)};
                                     ctx.average(gradient);
                                     CHECK(gradient == std::vector<float>{1});
                                     CHECK(ctx.sum(rank) == 3);
                                     CHECK(ctx.min(rank) == 0);
                                     CHECK(ctx.max(0.5 * rank) == 1.0);
                                   },
                                   {.scaling = {.num_workers = 3}, .run = {.name = "r", .storage_path = folder.path()}}}
      .fit();
}
