// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/backend.hpp>

#include <filesystem>
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
