// SPDX-License-Identifier: Apache-2.0
// What a start takes over from the one before it: reports of all ranks, and nothing that would not fit together.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/run_directory.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/launch/thread_launcher.hpp>
#include <raytrain/train/detail/run_driver.hpp>

#include "../support/function_queue.hpp"
#include "../support/text_files.hpp"
#include "minimal_run.hpp"

namespace {

auto resumed_in(TemporaryFolder const& folder, int workers) -> MinimalConfig {
  return {.scaling = {.num_workers = workers}, .run = {.name = "r", .storage_path = folder.path()}};
}

auto numbers(std::size_t rows) -> Dataset { return Dataset::from_columns({{"x", std::vector<float>(rows)}}); }

// Rank r reports r times more than rank 0 in each epoch.
auto uneven_epochs(int from, int to) {
  return [from, to](TrainContext& ctx) {
    for (auto epoch = from; epoch < to; ++epoch) {
      for (std::uint32_t extra = 0; extra < ctx.world_rank().value; ++extra) ctx.report(Epoch{epoch, 0});
      ctx.report(Epoch{epoch, 0}, ctx.world_rank() == Rank{0} ? draft(std::to_string(epoch)) : CheckpointDraft{});
    }
  };
}

// Threads that say to be on other hosts, two on each.
class SpreadThreads : public Launcher {
 public:
  explicit SpreadThreads(ScalingConfig const& scaling) : threads_{scaling, raytrain::local_collectives} {}
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return threads_.size(); }
  void launch(WorkerLaunch what) override {
    queue_.emplace([&queue = what.queue](WorkerMessage message) {
      if (auto* const started = std::get_if<Started>(&message)) {
        started->hostname = "node" + std::to_string(started->rank.value / 2);
      }
      queue.send(std::move(message));
    });
    threads_.launch({std::move(what.main), *queue_, std::move(what.limits), std::move(what.begin)});
  }
  void tell(ControllerMessage const& message) override { threads_.tell(message); }
  void join() noexcept override { threads_.join(); }
  void leave_workers_behind(std::vector<Rank> const& workers, std::string const& exit_text) noexcept override {
    threads_.leave_workers_behind(workers, exit_text);
  }

 private:
  std::optional<FunctionQueue> queue_;
  ThreadLauncher threads_;
};

// A run of workers that return at once.
void drive(Launcher& launcher, TemporaryFolder const& folder) {
  RunConfig const run{.name = "r", .storage_path = folder.path()};
  RunDirectory directory{{.storage_path = run.storage_path, .name = run.name, .program = "p", .backend = "b"}};
  SystemClock clock;
  detail::ResizeRequests resize_requests;
  detail::FitPlan const plan{.scaling = {},
                             .run = run,
                             .data = {},
                             .datasets = {},
                             .preprocessor = {},
                             .callbacks = {},
                             .backend = "b",
                             .default_launch = Launch::threads,
                             .one_worker_on_threads = false,
                             .clock = clock,
                             .resize_requests = resize_requests,
                             .backend_settings = {},
                             .start_backend = {},
                             .shut_backend_down = {},
                             .training = [](WorkerSetup) { return false; }};
  detail::RunDriver driver{launcher,
                           {.fit = plan,
                            .directory = directory,
                            .called = clock.now(),
                            .ends_processes = false,
                            .start_timeout = std::chrono::milliseconds{0},
                            .restart_backend = [] {}}};
  driver.run();
}

// All files and folders, with the content of the files, but for the lock's, which names who held it last.
auto files_below(std::filesystem::path const& folder) -> std::map<std::string, std::string> {
  std::map<std::string, std::string> contents;
  for (auto const& entry : std::filesystem::recursive_directory_iterator{folder}) {
    std::string text;
    if (entry.is_regular_file() && entry.path().filename() != ".lock") text = read_text(entry.path());
    contents.emplace(entry.path().string(), std::move(text));
  }
  return contents;
}

}  // namespace

TEST_CASE("a start that goes on loses no report of any rank, although the ranks reported differently often") {
  TemporaryFolder const folder;
  MinimalTrainer{uneven_epochs(0, 3), resumed_in(folder, 3)}.fit();
  auto const result = MinimalTrainer{uneven_epochs(3, 6), resumed_in(folder, 3)}.fit();
  std::vector<int> reports(3);
  for (auto const& report : result.all_reports()) ++reports.at(report.rank.value);
  CHECK(reports == std::vector{6, 12, 18});
  CHECK(result.last_reports.back().training_iteration == 18);
  CHECK(result.history.size() == 6);
  CHECK(Result::from_path(result.path).history.size() == 6);
  CHECK(Result::from_path(result.path).last_reports.size() == 3);
}

TEST_CASE("last_reports has the ranks of the last start only") {
  TemporaryFolder const folder;
  MinimalTrainer{epochs_up_to(2), resumed_in(folder, 4)}.fit();
  auto const result = MinimalTrainer{epochs_up_to(4), resumed_in(folder, 2)}.fit();
  CHECK(result.last_reports.size() == 2);
  CHECK(result.all_reports().size() == 12);
  CHECK(Result::from_path(result.path).last_reports.size() == 2);
}

TEST_CASE("another seed or dataset than before the checkpoint is warned of, and refused within an epoch") {
  TemporaryFolder const folder;
  auto const epochs = [](int from, bool within) {
    return [from, within](TrainContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      BatchOptions options{.batch_size = 2, .epoch = from};
      if (within) options.start = {from, 4};
      for (auto const& batch : shard.batches(options)) CHECK(batch.size() <= 2);
      ctx.report(Epoch{from, 0}, draft("x"));
    };
  };
  auto config = resumed_in(folder, 1);
  config.run.seed = 1;
  config.datasets = {{"train", numbers(8)}};
  MinimalTrainer{epochs(0, false), config}.fit();
  CHECK(MinimalTrainer{epochs(1, true), config}.fit().warnings.empty());

  config.run.seed = 2;
  config.datasets = {{"train", numbers(6)}};
  contains(message_of([&] {
             MinimalTrainer{epochs(2, true), config}.fit();
           }),
           "is another one now: of 8 rows by seed 1");
  auto const result = MinimalTrainer{epochs(2, false), config}.fit();
  CHECK(result.state == RunState::finished);
  REQUIRE(result.warnings.size() == 2);
  CHECK(result.warnings[0] == "goes on from checkpoint 2, before which RunConfig::seed was 1; it is 2 now");
  CHECK(result.warnings[1] == "goes on from checkpoint 2, before which dataset 'train' had 8 rows; it has 6 now");
}

TEST_CASE("another dataset with as many rows is warned of with both digests, and refused within an epoch") {
  TemporaryFolder const folder;
  auto const epoch = [](ShardPosition start) {
    return [start](TrainContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      for (auto const& batch : shard.batches({.batch_size = 2, .epoch = start.epoch, .start = start})) {
        CHECK(batch.size() == 2);
      }
      ctx.report(Epoch{0, 0}, ctx.world_rank() == Rank{0} ? draft("x") : CheckpointDraft{});
    };
  };
  auto const before = numbers(8);
  auto const now = Dataset::from_columns({{"x", std::vector<float>{0, 0, 0, 0, 0, 0, 0, 1}}});
  auto config = resumed_in(folder, 2);
  config.datasets = {{"train", before}};
  MinimalTrainer{epoch({0, 0}), config}.fit();
  CHECK(MinimalTrainer{epoch({1, 4}), config}.fit().warnings.empty());

  config.datasets = {{"train", now}};
  contains(
      message_of([&] {
        MinimalTrainer{epoch({2, 4}), config}.fit();
      }),
      "4 samples of epoch 2 are done of a dataset with other columns or values: its digest was " + before.digest());
  auto const result = MinimalTrainer{epoch({2, 0}), config}.fit();
  CHECK(result.state == RunState::finished);
  CHECK(result.warnings ==
        std::vector<std::string>{"goes on from checkpoint 2, before which dataset 'train' had other columns or "
                                 "values: its digest was " +
                                 before.digest() + "; it is " + now.digest() + " now"});
}

TEST_CASE("a checkpoint has the position of the shard that is restored, whatever other shards of its rows are for") {
  TemporaryFolder const folder;
  auto const look = [](TrainContext& ctx) {
    CHECK(ctx.dataset_shard("train").rows() == 12);
    auto again = ctx.dataset_shard("train");
    for (auto const& batch : again.batches({.batch_size = 12, .shuffle = false})) (void)batch;
  };
  std::vector<int> first_epochs;
  for (auto const last : {1, 3, 3, 4}) {  // the third start has nothing left to train
    MinimalTrainer trainer{
        [&](TrainContext& ctx) {
          look(ctx);
          auto shard = ctx.dataset_shard("train");
          auto const first = ctx.restore(shard);
          if (ctx.world_rank() == Rank{0}) first_epochs.push_back(first);
          for (auto epoch = first; epoch < last; ++epoch) {
            for (auto const& batch : shard.batches({.batch_size = 6, .epoch = epoch})) (void)batch;
            look(ctx);
            ctx.report(Epoch{epoch, 1.0}, ctx.world_rank() == Rank{0} ? draft("") : CheckpointDraft{});
          }
          look(ctx);
          ctx.report(Epoch{last - 1, 0.5}, ctx.world_rank() == Rank{0} ? draft("") : CheckpointDraft{});
        },
        {.scaling = {.num_workers = 2},
         .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false},
         .datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(24, 1)}})}}}};
    auto const result = trainer.fit();
    CHECK(result.checkpoint()->position("train") == ShardPosition{last, 0});
    CHECK(result.warnings.empty());
  }
  CHECK(first_epochs == std::vector<int>{0, 1, 3, 3});
}

TEST_CASE("what is measured before the first batch of the shard that is restored skips none of its epochs") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[&](TrainContext& ctx) {
                           auto shard = ctx.dataset_shard("train");
                           CHECK(ctx.restore(shard) == 0);
                           auto again = ctx.dataset_shard("train");
                           for (auto const& batch : again.batches({.batch_size = 12, .shuffle = false})) (void)batch;
                           ctx.report(Epoch{-1, 1.0}, ctx.world_rank() == Rank{0} ? draft("") : CheckpointDraft{});
                         },
                         {.scaling = {.num_workers = 2},
                          .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false},
                          .datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(24, 1)}})}}}};
  CHECK(trainer.fit().checkpoint()->position("train") == ShardPosition{});
}

TEST_CASE(
    "without one that is restored, or with one behind it, a checkpoint has the position of the shard begun last") {
  for (auto const is_restored : {false, true}) {
    CAPTURE(is_restored);
    TemporaryFolder const folder;
    MinimalTrainer trainer{[&](TrainContext& ctx) {
                             auto shard = ctx.dataset_shard("train");
                             if (is_restored) CHECK(ctx.restore(shard) == 0);
                             for (auto const& batch : shard.batches({.batch_size = 6})) (void)batch;
                             auto next = ctx.dataset_shard("train");  // with other settings of the program's, say
                             for (int epoch = 1; epoch < 3; ++epoch) {
                               for (auto const& batch : next.batches({.batch_size = 3, .epoch = epoch})) (void)batch;
                             }
                             ctx.report(Epoch{2, 1.0}, ctx.world_rank() == Rank{0} ? draft("") : CheckpointDraft{});
                           },
                           {.scaling = {.num_workers = 2},
                            .run = {.name = "r", .storage_path = folder.path(), .handle_signals = false},
                            .datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(24, 1)}})}}}};
    CHECK(trainer.fit().checkpoint()->position("train") == ShardPosition{3, 0});
  }
}

TEST_CASE("another batch size within an epoch is warned of with both, and each row still comes once") {
  TemporaryFolder const folder;
  std::atomic<std::size_t> rows = 0;
  auto const take = [&](BatchOptions options, std::size_t most) {
    return [&rows, options, most](TrainContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      auto const batches = shard.batches(options);
      for (std::size_t k = 0; k < std::min(most, batches.size()); ++k) rows += batches[k].size();
      ctx.report(Epoch{0, 0}, ctx.world_rank() == Rank{0} ? draft("x") : CheckpointDraft{});
    };
  };
  auto config = resumed_in(folder, 2);
  config.datasets = {{"train", numbers(12)}};
  CHECK(MinimalTrainer{take({.batch_size = 2}, 1), config}.fit().warnings.empty());
  auto const result = MinimalTrainer{take({.batch_size = 3, .start = {0, 4}}, 2), config}.fit();
  CHECK(rows == 12);
  CHECK(result.warnings ==
        std::vector<std::string>{"goes on within epoch 0 of dataset 'train', of which 4 samples are done in batches of "
                                 "2; batches are of 3 now: each row still comes once, but in other steps"});
  CHECK(result.checkpoint()->batch_size("train") == 3);
  CHECK_FALSE(result.checkpoint()->batch_size("test"));
  CHECK(MinimalTrainer{take({.batch_size = 3, .start = {0, 4}}, 1), config}.fit().warnings.empty());
  CHECK(MinimalTrainer{take({.batch_size = 6, .epoch = 1, .start = {1, 0}}, 1), config}.fit().warnings.empty());
}

TEST_CASE(
    "another order within an epoch than before the checkpoint is refused, and each row comes once in the same one") {
  TemporaryFolder const folder;
  std::atomic<std::size_t> rows = 0;
  auto const take = [&](BatchOptions options, std::size_t most) {
    return [&rows, options, most](TrainContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      (void)ctx.restore(shard);
      std::size_t taken = 0;
      if (most > 0) {
        for (auto const& batch : shard.batches(options)) {
          rows += batch.size();
          if (++taken == most) break;
        }
      }
      ctx.report(Epoch{0, 0}, ctx.world_rank() == Rank{0} ? draft("x") : CheckpointDraft{});
    };
  };
  auto config = resumed_in(folder, 2);
  config.datasets = {{"train", numbers(12)}};
  auto const refusal = [&](BatchOptions const& options) {
    return message_of([&] { MinimalTrainer{take(options, 1), config}.fit(); });
  };
  auto const order_after = [&](BatchOptions const& options, std::size_t most) {
    auto const result = MinimalTrainer{take(options, most), config}.fit();
    CHECK(result.warnings.empty());
    return result.checkpoint()->order("train");
  };
  CHECK(order_after({.batch_size = 2}, 2) == "shuffled");
  contains(refusal({.batch_size = 2, .shuffle = false}),
           "8 samples of epoch 0 are done of rows that came shuffled, and they come as they lie now; write .shuffle "
           "and .shuffle_window as they were");
  contains(refusal({.batch_size = 2, .shuffle_window = 4}), "and they come shuffled in windows of 4 now");
  CHECK(order_after({.batch_size = 2}, 10) == "shuffled");
  CHECK(rows == 12);

  CHECK(order_after({.batch_size = 2, .epoch = 1, .shuffle_window = 5}, 1) == "shuffled in windows of 5");
  CHECK(order_after({}, 0) == "shuffled in windows of 5");  // of a start that takes no batch
  contains(refusal({.batch_size = 2, .epoch = 1, .shuffle_window = 4}),
           "4 samples of epoch 1 are done of rows that came shuffled in windows of 5, and they come shuffled in "
           "windows of 4 now");
  contains(refusal({.batch_size = 2, .epoch = 1}), "and they come shuffled now");
  CHECK(order_after({.batch_size = 2, .epoch = 1, .shuffle_window = 5}, 10) == "shuffled in windows of 5");
  CHECK(rows == 24);
  CHECK(order_after({.batch_size = 2, .epoch = 2, .shuffle = false}, 1) == "as they lie");
  auto const without_data = [](TrainContext& ctx) { ctx.report(Epoch{3, 0}, draft("x")); };
  config.scaling.num_workers = 1;
  CHECK_FALSE(MinimalTrainer{without_data, config}.fit().checkpoint()->order("train"));
}

TEST_CASE("an epoch in windows goes on with other numbers of workers, and each row comes once") {
  TemporaryFolder const folder;
  std::mutex mutex;
  std::multiset<std::uint64_t> taken;
  auto const train = [&](TrainContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    auto const epoch = ctx.restore(shard);
    std::size_t steps = 0;
    for (auto const& batch : shard.batches({.global_batch_size = 18, .epoch = epoch, .shuffle_window = 7})) {
      {
        std::lock_guard const lock{mutex};
        for (std::size_t i = 0; i < batch.size(); ++i) taken.insert(batch.row(i));
      }
      if (++steps == 2) break;
    }
    ctx.report(Epoch{0, 0}, ctx.world_rank() == Rank{0} ? draft("x") : CheckpointDraft{});
  };
  for (auto const workers : {3, 1, 2}) {
    auto config = resumed_in(folder, workers);
    config.datasets = {{"train", numbers(108)}};
    CHECK(MinimalTrainer{train, config}.fit().warnings.empty());
  }
  CHECK(taken.size() == 108);
  CHECK(std::set<std::uint64_t>(taken.begin(), taken.end()).size() == 108);
}

TEST_CASE("a start that is refused leaves the run's folder as it was, above all its record") {
  TemporaryFolder const folder;
  auto const config = resumed_in(folder, 1);
  auto const run = folder.path() / "r";
  auto const checkpoints = run / "checkpoints";
  auto const check_refused = [&](std::string const& why) {
    auto const before = files_below(run);
    contains(message_of([&] { MinimalTrainer{epochs_up_to(4), config}.fit(); }), why);
    CHECK(files_below(run) == before);
  };
  MinimalTrainer{epochs_up_to(2), config}.fit();
  CHECK(read_run_record(run).state == "finished");

  std::filesystem::rename(run / "progress.jsonl", folder.path() / "progress");
  REQUIRE(::mkfifo((run / "progress.jsonl").c_str(), 0666) == 0);
  check_refused("progress.jsonl': it is not a regular file");
  std::filesystem::rename(folder.path() / "progress", run / "progress.jsonl");

  for (auto const& entry : std::filesystem::directory_iterator{checkpoints}) {
    std::filesystem::resize_file(entry.path() / "manifest.json", 5);
  }
  check_refused("each is damaged");
  std::filesystem::remove_all(checkpoints);
  check_refused("it had checkpoints by its run.json, and there are none");
  std::filesystem::remove(run / "run.json");
  std::filesystem::remove(run / "progress.jsonl");
  std::filesystem::remove(run / ".lock");
  std::filesystem::create_directory(run / "progress.jsonl");
  check_refused("progress.jsonl': it is not a regular file");
}

TEST_CASE("run.json names the hosts of all workers, each once and in rank order") {
  TemporaryFolder const folder;
  SpreadThreads launcher{{.num_workers = 4}};
  drive(launcher, folder);
  CHECK(read_run_record(folder.path() / "r").hosts == std::vector<std::string>{"node0", "node1"});
}

TEST_CASE("run.json says why no worker could be started") {
  class Refusing : public SpreadThreads {
   public:
    using SpreadThreads::SpreadThreads;
    void launch(WorkerLaunch /*what*/) override {
      throw Error{Errc::not_found, "starting the workers", "there is no program 'trian'", "look at its name"};
    }
  };
  TemporaryFolder const folder;
  Refusing launcher{{.num_workers = 4}};
  CHECK(message_of([&] { drive(launcher, folder); }) ==
        "starting the workers: there is no program 'trian'; look at its name");
  auto const record = read_run_record(folder.path() / "r");
  CHECK(record.state == "errored");
  contains(record.error, "starting the workers: there is no program 'trian'; look at its name");
}
