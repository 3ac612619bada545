// SPDX-License-Identifier: Apache-2.0
#include <raytrain/trainer.hpp>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <cereal/cereal.hpp>

#include <raytrain/launch/host.hpp>

#include "minimal_run.hpp"

namespace {

struct Other {
  int step = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(step));
  }
};

std::string late_text;

// A context that reports when it ends, which is after the training function.
struct LateContext : TrainContext {
  using TrainContext::TrainContext;
  ~LateContext() {
    late_text = message_of([this] { report(Epoch{}); });
  }
};

struct LateBackend : MinimalBackend {
  using Context = LateContext;
  using MinimalBackend::MinimalBackend;
  auto make_context(WorkerSetup setup) -> Context { return Context{std::move(setup)}; }
};

}  // namespace

TEST_CASE("fit() keeps the reports of all ranks, and rank 0's last one leads") {
  TemporaryFolder const folder;
  for (auto const workers : {1, 2, 4}) {
    CAPTURE(workers);
    MinimalTrainer trainer{epochs_up_to(3),
                           {.scaling = {.num_workers = workers},
                            .run = {.name = "run" + std::to_string(workers), .storage_path = folder.path()}}};
    auto const result = trainer.fit();
    CHECK(result.state == RunState::finished);
    CHECK(result.metrics.number("epoch") == 2);
    CHECK(result.metrics.number("training_iteration") == 3);
    CHECK(result.metrics.number("world_rank") == 0);
    CHECK(result.history.size() == 3);
    CHECK(result.all_reports().size() == static_cast<std::size_t>(3 * workers));
    CHECK(result.last_reports.size() == static_cast<std::size_t>(workers));
    CHECK(result.checkpoints.size() == 3);
    CHECK(text_in(*result.checkpoint()) == "2");
    CHECK(text_in(*result.best_checkpoint("loss", ScoreOrder::max)) == "0");
    CHECK(text_in(*result.best_checkpoint("loss", ScoreOrder::min)) == "2");
    CHECK(result.timings.total_s >= result.timings.to_first_report_s);
  }
}

TEST_CASE("the training function may take parameters, the same on every worker") {
  TemporaryFolder const folder;
  struct Params {
    double rate = 0;
  };
  std::atomic<int> right = 0;
  MinimalTrainer trainer{[&](TrainContext&, Params const& params) { right += params.rate == 0.5 ? 1 : 0; },
                         Params{0.5},
                         {.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path()}}};
  trainer.fit();
  CHECK(right == 2);
}

TEST_CASE("metrics whose names only the run knows are reported as they are, with the names of a struct's refused") {
  TemporaryFolder const folder;
  auto const run_of = [&](std::string const& name) {
    return MinimalTrainer{[name](TrainContext& ctx) {
                            ctx.report(Metrics{{name, 0.5}, {"round", std::int64_t{3}}});
                          },
                          {.run = {.name = "r", .storage_path = folder.path()}}};
  };
  auto const result = run_of("valid-auc").fit();
  CHECK(result.metrics.number("valid-auc") == 0.5);
  CHECK(result.metrics.number("round") == 3);
  contains(message_of([&] { run_of("pid").fit(); }), "report field 'pid': has the name of a metric that every");
  contains(message_of([&] { run_of("train-auc").fit(); }), "and this report has train-auc, round");
}

TEST_CASE("a context knows its place, its run and its share of the data") {
  TemporaryFolder const folder;
  Dataset const data = Dataset::from_columns({{"x", std::vector<float>{0, 1, 2, 3, 4}}});
  std::mutex mutex;
  std::multiset<float> seen;
  MinimalTrainer trainer{[&](TrainContext& ctx) {
                           CHECK(ctx.world_size() == WorldSize{2});
                           CHECK(ctx.local_rank() == ctx.world_rank());
                           CHECK(ctx.experiment_name() == "r");
                           CHECK(ctx.run_path() == folder.path() / "r");
                           CHECK(ctx.seed() == 7);
                           CHECK_FALSE(ctx.checkpoint().has_value());
                           CHECK(ctx.dataset_shard("valid").rows() == 5);
                           auto shard = ctx.dataset_shard("train");
                           CHECK(shard.rows() == 2);
                           for (auto const& batch : shard.batches({.batch_size = 1})) {
                             float value = -1;
                             batch.gather("x", std::span{&value, 1});
                             std::lock_guard const lock{mutex};
                             seen.insert(value);
                           }
                           std::vector<int> values(2, static_cast<int>(ctx.world_rank().value));
                           ctx.collective().broadcast(std::span{values}, Rank{1});
                           CHECK(values == std::vector{1, 1});
                         },
                         {.scaling = {.num_workers = 2},
                          .run = {.name = "r", .storage_path = folder.path(), .seed = 7},
                          .datasets = {{"train", data}, {"valid", data}}}};
  trainer.fit();
  CHECK(seen.size() == 4);
  CHECK(std::set<float>{seen.begin(), seen.end()}.size() == 4);
}

TEST_CASE("workers send each other structs, strings and vectors, in rank order or from one of them") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{
      [](TrainContext& ctx) {
        auto const rank = static_cast<int>(ctx.world_rank().value);
        auto const epoch = ctx.broadcast(Epoch{rank, 0.5 * rank}, Rank{2});
        CHECK(epoch.epoch == 2);
        CHECK(epoch.loss == 1.0);
        CHECK(ctx.broadcast(std::string(5000, static_cast<char>('a' + rank))) == std::string(5000, 'a'));
        auto const all = ctx.all_gather(std::vector<int>(static_cast<std::size_t>(rank), rank));
        CHECK(all == std::vector<std::vector<int>>{{}, {1}, {2, 2}});
      },
      {.scaling = {.num_workers = 3}, .run = {.name = "r", .storage_path = folder.path()}}};
  CHECK(trainer.fit().state == RunState::finished);
}

TEST_CASE("a failing worker makes fit() throw with its rank and text, the others are released, the result is kept") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{
      [](TrainContext& ctx) {
        ctx.report(Epoch{0, 0.5}, draft("rank " + std::to_string(ctx.world_rank().value)).per_rank());
        ctx.barrier();
        if (ctx.world_rank() == Rank{1}) throw std::out_of_range{"index 9"};
        ctx.barrier();
      },
      {.scaling = {.num_workers = 3}, .run = {.name = "r", .storage_path = folder.path()}}};
  try {
    trainer.fit();
    FAIL("must throw");
  } catch (TrainingFailed const& failed) {
    REQUIRE(failed.failures().size() == 1);
    CHECK(failed.failures().front().rank == Rank{1});
    CHECK(failed.failures().front().code == Errc::exception);
    CHECK(failed.failures().front().happened == "index 9");
    CHECK(failed.failures().front().host == this_host().hostname);
    contains(failed.what(), "rank 1 on ");
    contains(failed.what(), "index 9");
    contains(failed.what(), "start it again to go on from");
    CHECK(failed.result().state == RunState::errored);
    CHECK(failed.result().all_reports().size() == 3);
    CHECK(failed.result().checkpoints.size() == 1);
  }
}

TEST_CASE(
    "a worker's Error comes out of fit() with its code and its parts, so that a program tells a full disk from a bug") {
  TemporaryFolder const folder;
  for (auto const disk_is_full : {true, false}) {
    MinimalTrainer trainer{[&](TrainContext&) {
                             if (disk_is_full)
                               throw Error{Errc::io, "write 'model'", "No space left on device", "make room"};
                             throw std::logic_error{"write 'model': a bug"};
                           },
                           {.run = {.name = "r", .storage_path = folder.path()}}};
    try {
      trainer.fit();
      FAIL("must throw");
    } catch (TrainingFailed const& failed) {
      REQUIRE(failed.failures().size() == 1);
      auto const& error = failed.failures().front();
      CHECK(error.code == (disk_is_full ? Errc::io : Errc::exception));
      CHECK(error.attempted == (disk_is_full ? "write 'model'" : ""));
      CHECK(error.happened == (disk_is_full ? "No space left on device" : "write 'model': a bug"));
      CHECK(error.remedy == (disk_is_full ? "make room" : ""));
      CHECK(error.rank == Rank{0});
      contains(failed.result().error, error.text());
    }
  }
}

TEST_CASE("an exception that is not a std::exception is reported by its type") {
  TemporaryFolder const folder;
  struct Oops {};
  MinimalTrainer trainer{[](TrainContext&) { throw Oops{}; }, {.run = {.name = "r", .storage_path = folder.path()}}};
  contains(message_of([&] { trainer.fit(); }), "Oops");
}

TEST_CASE("a worker that returns while another waits for it is named") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           if (ctx.world_rank() == Rank{0}) ctx.barrier();
                         },
                         {.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path()}}};
  contains(message_of([&] { trainer.fit(); }), "rank 1 has ended");
}

TEST_CASE("a second fit() goes on from the newest checkpoint, and a finished run gives its stored result") {
  TemporaryFolder const folder;
  auto const config = [&] {
    return MinimalConfig{.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path()}};
  };
  auto const first = MinimalTrainer{epochs_up_to(2), config()}.fit();
  CHECK_FALSE(first.nothing_left);
  auto const second = MinimalTrainer{epochs_up_to(5), config()}.fit();
  CHECK(second.metrics.number("epoch") == 4);
  CHECK(second.metrics.number("training_iteration") == 5);
  CHECK(second.history.size() == 5);
  CHECK(second.all_reports().size() == 10);
  auto const third = MinimalTrainer{epochs_up_to(5), config()}.fit();
  CHECK(third.nothing_left);
  CHECK(third.metrics.number("epoch") == 4);
  CHECK(third.history.size() == 5);
  CHECK(third.all_reports().size() == 10);
  CHECK(third.checkpoints.size() == 5);
}

TEST_CASE("Resume::fresh starts at the beginning and leaves other files alone") {
  TemporaryFolder const folder;
  MinimalConfig config{.run = {.name = "r", .storage_path = folder.path()}};
  MinimalTrainer{epochs_up_to(2), config}.fit();
  std::ofstream{folder.path() / "r" / "notes.txt"} << "mine";
  config.run.resume = Resume::fresh;
  auto const result = MinimalTrainer{epochs_up_to(1), config}.fit();
  CHECK(result.history.size() == 1);
  CHECK(result.checkpoints.size() == 1);
  CHECK(std::filesystem::exists(folder.path() / "r" / "notes.txt"));
}

TEST_CASE("a finished or broken run is read back from its folder") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           ctx.report(Epoch{0, 0.25}, draft("0"));
                           throw std::runtime_error{"enough"};
                         },
                         {.run = {.name = "r", .storage_path = folder.path()}}};
  CHECK_THROWS_AS(trainer.fit(), TrainingFailed);
  auto const result = Result::from_path(folder.path() / "r");
  CHECK(result.state == RunState::errored);
  contains(result.error, "enough");
  REQUIRE(result.history.size() == 1);
  CHECK(result.history.front().metrics.number("loss") == 0.25);
  CHECK(result.metrics.number("epoch") == 0);
  CHECK(result.checkpoints.size() == 1);
  CHECK_THROWS_AS((void)Result::from_path(folder.path() / "nothing"), Error);
}

TEST_CASE("num_to_keep keeps the best and the newest on disk") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{
      epochs_up_to(5),
      {.run = {
           .name = "r", .storage_path = folder.path(), .checkpoint = {.num_to_keep = 1, .score_attribute = "loss"}}}};
  auto const result = trainer.fit();
  REQUIRE(result.checkpoints.size() == 2);
  CHECK(text_in(result.checkpoints[0]) == "0");
  CHECK(text_in(result.checkpoints[1]) == "4");
}

TEST_CASE("with CheckpointMode::sync the checkpoint is committed when report returns") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{
      [&](TrainContext& ctx) {
        for (auto epoch = 0; epoch < 3; ++epoch) {
          ctx.report(Epoch{epoch, 0}, draft("s").per_rank());
          CHECK(std::filesystem::exists(ctx.run_path() / "checkpoints" /
                                        ("checkpoint_00000" + std::to_string(epoch + 1))));
        }
      },
      {.scaling = {.num_workers = 2},
       .run = {.name = "r", .storage_path = folder.path(), .checkpoint = {.mode = CheckpointMode::sync}}}};
  CHECK(trainer.fit().checkpoints.size() == 3);
}

TEST_CASE("the same file from two ranks is an error that names the file and both ranks") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[&](TrainContext& ctx) { ctx.report(Epoch{}, draft("x")); },
                         {.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path()}}};
  auto const text = message_of([&] { trainer.fit(); });
  contains(text, "state.txt");
  contains(text, "0");
  contains(text, "1");
}

TEST_CASE("a directory of another backend, program or report is refused with both identities") {
  TemporaryFolder const folder;
  MinimalConfig const config{.run = {.name = "r", .storage_path = folder.path()}};
  MinimalTrainer{epochs_up_to(1), config}.fit();
  MinimalTrainer other{[](TrainContext& ctx) { ctx.report(Other{1}); }, config};
  auto const text = message_of([&] { other.fit(); });
  contains(text, "step");
  contains(text, "epoch, loss");
}

TEST_CASE("a corrupted checkpoint is passed over with a warning that names it") {
  TemporaryFolder const folder;
  MinimalConfig const config{.run = {.name = "r", .storage_path = folder.path()}};
  MinimalTrainer{epochs_up_to(3), config}.fit();
  std::ofstream{folder.path() / "r/checkpoints/checkpoint_000003/state.txt"} << "9";
  auto const result = MinimalTrainer{epochs_up_to(3), config}.fit();
  REQUIRE(result.warnings.size() == 1);
  contains(result.warnings.front(), "checkpoint_000003");
  CHECK(text_in(*result.checkpoint()) == "2");
  CHECK(result.history.size() == 3);
}

TEST_CASE("report is refused from another thread") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           std::string text;
                           std::jthread{[&] { text = message_of([&] { ctx.report(Epoch{}); }); }}.join();
                           contains(text, "another thread");
                         },
                         {.run = {.name = "r", .storage_path = folder.path()}}};
  CHECK(trainer.fit().state == RunState::finished);
}

TEST_CASE("report is refused once the training function has returned") {
  TemporaryFolder const folder;
  Trainer<LateBackend>{[](LateContext&) {}, {.run = {.name = "r", .storage_path = folder.path()}}}.fit();
  contains(late_text, "was called after the training function had returned");
}

TEST_CASE("a NaN is kept, in the result and in the file") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           ctx.report(Epoch{0, std::numeric_limits<double>::quiet_NaN()});
                         },
                         {.run = {.name = "r", .storage_path = folder.path()}}};
  auto const result = trainer.fit();
  CHECK(std::isnan(*result.metrics.number("loss")));
  CHECK(std::isnan(*Result::from_path(result.path).metrics.number("loss")));
}

TEST_CASE("a signal stops the run, the checkpoint before it is kept, and the next start goes on from it") {
  TemporaryFolder const folder;
  MinimalConfig const config{.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path()}};
  auto const endless = [](TrainContext& ctx) {
    auto epoch = ctx.checkpoint() ? std::stoi(text_in(*ctx.checkpoint())) + 1 : 0;
    ctx.report(Epoch{epoch, 0}, ctx.world_rank() == Rank{0} ? draft(std::to_string(epoch)) : CheckpointDraft{});
    if (ctx.world_rank() == Rank{0}) std::raise(SIGINT);
    while (!ctx.stop_requested()) ctx.barrier();
  };
  for (auto start = 0; start < 3; ++start) {
    auto const result = MinimalTrainer{endless, config}.fit();
    CHECK(result.state == RunState::aborted);
    CHECK(text_in(*result.checkpoint()) == std::to_string(start));
  }
}

TEST_CASE("a signal that the process ignores stays ignored") {
  TemporaryFolder const folder;
  auto* const before = std::signal(SIGINT, SIG_IGN);
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           std::raise(SIGINT);
                           ctx.report(Epoch{0, 0});
                         },
                         {.run = {.name = "r", .storage_path = folder.path()}}};
  auto const result = trainer.fit();
  bool const still_ignored = std::signal(SIGINT, before) == SIG_IGN;
  CHECK(still_ignored);
  CHECK(result.state == RunState::finished);
}

TEST_CASE("a training function that does not ask is stopped at its next report, which is still kept") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           std::raise(SIGTERM);
                           for (auto epoch = 0;; ++epoch) ctx.report(Epoch{epoch, 0});
                         },
                         {.run = {.name = "r", .storage_path = folder.path()}}};
  auto const result = trainer.fit();
  CHECK(result.state == RunState::aborted);
  CHECK(result.history.size() >= 1);
}

TEST_CASE("a training function that never reports is stopped in its collective when the grace is over") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{
      [](TrainContext& ctx) {
        if (ctx.world_rank() == Rank{0}) std::raise(SIGTERM);
        while (true) ctx.barrier();
      },
      {.scaling = {.num_workers = 2},
       .run = {.name = "r", .storage_path = folder.path(), .stop_grace = std::chrono::milliseconds{1}}}};
  CHECK(trainer.fit().state == RunState::aborted);
}

namespace {

struct Recorder : Callback {
  void on_start(RunInfo const& info) override {
    calls += "start ";
    request_stop = info.request_stop;
  }
  void on_report(Report const& report, Metrics const& all) override {
    ++reports[report.rank];
    CHECK(all.contains("hostname"));
  }
  void on_checkpoint(Checkpoint const& checkpoint) override {
    checkpoint.verify();
    calls += "checkpoint ";
  }
  void on_progress(Progress const&) override { ++progress; }
  void on_failure(ErrorInfo const&) override { calls += "failure "; }
  auto on_warning(std::string_view) -> bool override {
    calls += "warning ";
    return true;
  }
  void on_finish(Result const&) override { calls += "finish"; }

  std::string calls;
  std::map<Rank, int> reports;
  int progress = 0;
  std::function<void()> request_stop;
};

struct Thrower : Callback {
  explicit Thrower(bool is_critical) : critical_{is_critical} {}
  void on_report(Report const&, Metrics const&) override { throw std::runtime_error{"no socket"}; }
  [[nodiscard]] auto critical() const noexcept -> bool override { return critical_; }

 private:
  bool critical_;
};

}  // namespace

TEST_CASE("callbacks see the start, every rank's reports, committed checkpoints, and the end last") {
  TemporaryFolder const folder;
  auto const recorder = std::make_shared<Recorder>();
  MinimalTrainer{
      epochs_up_to(2),
      {.scaling = {.num_workers = 2}, .run = {.name = "r", .storage_path = folder.path()}, .callbacks = {recorder}}}
      .fit();
  CHECK(recorder->calls == "start checkpoint checkpoint finish");
  CHECK(recorder->reports == std::map<Rank, int>{{Rank{0}, 2}, {Rank{1}, 2}});
}

TEST_CASE("a callback that throws is reported and training goes on, unless it is critical") {
  TemporaryFolder const folder;
  auto const recorder = std::make_shared<Recorder>();
  MinimalConfig config{.run = {.name = "r", .storage_path = folder.path()}};
  config.callbacks = {std::make_shared<Thrower>(false), recorder};
  auto const result = MinimalTrainer{epochs_up_to(1), config}.fit();
  CHECK(result.state == RunState::finished);
  contains(result.warnings.at(0), "no socket");
  contains(recorder->calls, "warning");
  config.callbacks = {std::make_shared<Thrower>(true)};
  contains(message_of([&] { MinimalTrainer{epochs_up_to(2), config}.fit(); }), "no socket");
}

TEST_CASE("a callback can ask for a stop") {
  TemporaryFolder const folder;
  struct Stopper : Recorder {
    void on_report(Report const&, Metrics const&) override { request_stop(); }
  };
  MinimalTrainer trainer{
      [](TrainContext& ctx) {
        for (auto epoch = 0;; ++epoch) ctx.report(Epoch{epoch, 0});
      },
      {.run = {.name = "r", .storage_path = folder.path()}, .callbacks = {std::make_shared<Stopper>()}}};
  CHECK(trainer.fit().state == RunState::aborted);
}

TEST_CASE("a callback that ends a run early, however often, tears no worker out of its epoch and finishes the run") {
  TemporaryFolder const folder;
  struct EarlyStopping : Callback {
    void on_start(RunInfo const& info) override { finish_early = info.finish_early; }
    void on_progress(Progress const&) override {
      finish_early();
      finish_early();
      ++calls;
    }
    std::function<void()> finish_early;
    std::atomic<int> calls = 0;
  };
  auto const stopping = std::make_shared<EarlyStopping>();
  MinimalTrainer trainer{
      [&](TrainContext& ctx) {
        ctx.progress(1, 1);
        while (stopping->calls == 0) ctx.barrier();
        ctx.progress(1, 1);  // comes behind both requests
        while (stopping->calls == 1) ctx.barrier();
        for (auto epoch = 0;; ++epoch) ctx.report(Epoch{epoch, 0});
      },
      {.run = {.name = "r", .storage_path = folder.path(), .stop_grace = std::chrono::milliseconds{0}},
       .callbacks = {stopping}}};
  auto const result = trainer.fit();
  CHECK(result.state == RunState::finished);
  CHECK(result.metrics.number("epoch") == 0);
  CHECK(Result::from_path(result.path).state == RunState::finished);
}

TEST_CASE("bad configuration is refused before anything is created") {
  TemporaryFolder const folder;
  auto const nothing = [](TrainContext&) {};
  auto const refused = [&](MinimalConfig config) {
    config.run.storage_path = folder.path() / "runs";
    auto const text = message_of([&] { MinimalTrainer{nothing, config}.fit(); });
    CHECK_FALSE(std::filesystem::exists(folder.path() / "runs"));
    return text;
  };
  contains(refused({.scaling = {.num_workers = 0}}), "must be from 1 to 4096 (got 0)");
  contains(refused({.scaling = {.num_workers = -2}}), "(got -2)");
  contains(refused({.run = {.name = "a/b"}}), "must be one folder's name (got 'a/b')");
  contains(refused({.run = {.checkpoint = {.num_to_keep = 0}}}), "must be at least 1 (got 0)");
  auto const data = Dataset::from_columns({{"x", std::vector<float>{0, 1}}});
  contains(refused({.scaling = {.num_workers = 3}, .datasets = {{"train", data}}}), "2 rows cannot be divided among 3");
}

TEST_CASE("a dataset that does not exist is an error that lists those that do") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) { (void)ctx.dataset_shard("tain"); },
                         {.run = {.name = "r", .storage_path = folder.path()},
                          .datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>{0, 1}}})}}}};
  contains(message_of([&] { trainer.fit(); }), "train");
}
