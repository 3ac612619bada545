// SPDX-License-Identifier: Apache-2.0
// Runs with a preprocessor.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/map_batches.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/function_transformer.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/robust_scaler.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "prepared_run.hpp"

namespace {

TEST_CASE("all workers learn the same from \"train\", and every dataset is changed by it") {
  std::set<std::string> of_all;
  for (auto const workers : {1, 2, 3}) {
    CAPTURE(workers);
    TemporaryFolder const folder;
    Seen seen;
    MinimalTrainer trainer{[&](TrainContext& ctx) { seen.add(ctx); }, preparing_config(folder, workers)};
    (void)trainer.fit();
    CHECK(seen.first_valid_values == std::set<double>{0});
    CHECK(seen.preprocessors.size() == 1);
    of_all.merge(seen.preprocessors);
  }
  CHECK(of_all.size() == 1);
}

TEST_CASE("each checkpoint has the preprocessor as it learnt, also one of parts per rank") {
  TemporaryFolder const folder;
  MinimalTrainer trainer{[](TrainContext& ctx) {
                           ctx.report(Epoch{0, 1}, draft("replicated by rank 0").per_rank());
                         },
                         preparing_config(folder, 2)};
  auto const result = trainer.fit();
  REQUIRE(result.checkpoint());
  auto const preprocessor = load_preprocessor(*result.checkpoint());
  CHECK(preprocessor.as<StandardScaler>().scales.at("x").shift[0] == 2'499.5);
  CHECK(result.checkpoint()->contains("raytrain_preprocessor.json"));
}

TEST_CASE("a checkpoint of a run without a preprocessor has none") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 1);
  config.preprocessor = {};
  MinimalTrainer trainer{epochs_up_to(1), config};
  auto const result = trainer.fit();
  contains(message_of([&] { (void)load_preprocessor(*result.checkpoint()); }), "its run had no preprocessor");
}

TEST_CASE("a run that goes on has what it learnt at first, whatever its rows are now") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  MinimalTrainer first{epochs_up_to(1), config};
  (void)first.fit();
  config.datasets["train"] = rows_from(6'000, 1'000'000);
  Seen seen;
  MinimalTrainer second{[&](TrainContext& ctx) { seen.add(ctx); }, config};
  (void)second.fit();
  CHECK(seen.first_valid_values == std::set<double>{0});
}

TEST_CASE("a run that begins with another run's checkpoint learns anew") {
  TemporaryFolder const folder;
  MinimalTrainer first{epochs_up_to(1), preparing_config(folder, 1)};
  auto const before = first.fit();
  TemporaryFolder const other;
  auto config = preparing_config(other, 1);
  config.run.resume_from_checkpoint = before.checkpoint()->path();
  config.datasets["train"] = rows_from(5'000, 2'499.5);
  Seen seen;
  MinimalTrainer second{[&](TrainContext& ctx) { seen.add(ctx); }, config};
  (void)second.fit();
  CHECK(seen.first_valid_values.count(0) == 0);
}

TEST_CASE("a run goes on with what its checkpoint has, when that is given to it") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 1);
  MinimalTrainer first{epochs_up_to(1), config};
  config.preprocessor = load_preprocessor(*first.fit().checkpoint());
  Seen seen;
  MinimalTrainer second{[&](TrainContext& ctx) { seen.add(ctx); }, config};
  (void)second.fit();
  CHECK(seen.first_valid_values == std::set<double>{0});
  MinimalTrainer reporting{epochs_up_to(2), config};
  (void)reporting.fit();
  MinimalTrainer original{epochs_up_to(3), preparing_config(folder, 1)};
  CHECK(original.fit().state == RunState::finished);
}

TEST_CASE("a checkpoint that is reported again brings no preprocessor with it") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 1);
  MinimalTrainer first{epochs_up_to(1), config};
  auto const before = first.fit().checkpoint().value();
  auto const report_it = [&](TrainContext& ctx) { ctx.report(Epoch{1, 1}, CheckpointDraft{before}); };
  MinimalTrainer same{report_it, config};
  CHECK(load_preprocessor(*same.fit().checkpoint()).is_fitted());
  TemporaryFolder const other;
  auto without = preparing_config(other, 1);
  without.preprocessor = {};
  MinimalTrainer second{report_it, without};
  CHECK_FALSE(find_preprocessor(*second.fit().checkpoint()));
  MinimalTrainer third{epochs_up_to(0), without};
  CHECK(third.fit().state == RunState::finished);
}

TEST_CASE("what is not split is learnt from once where all workers hold the same") {
  TemporaryFolder const folder;
  std::set<std::string> learnt;
  for (auto const workers : {1, 3}) {
    auto config = preparing_config(folder, workers);
    config.run.name = std::to_string(workers);
    config.data.datasets_to_split = {};
    config.preprocessor = RobustScaler{{"x"}};
    config.datasets["train"] = Dataset::from_columns({{"x", std::vector<double>{0, 1}}});
    Seen seen;
    MinimalTrainer trainer{[&](TrainContext& ctx) { seen.add(ctx); }, config};
    (void)trainer.fit();
    learnt.merge(seen.preprocessors);
  }
  CHECK(learnt.size() == 1);
}

auto doubled(Dataset const& rows) -> Dataset {
  return map_batches(rows, [](Dataset const& batch) {
    std::vector<double> values;
    for (auto const value : batch.column("x").as<double>()) values.push_back(2 * value);
    return batch.with_column({"x", std::move(values)});
  });
}

TEST_CASE("a function of batches is given to workers without rows, too") {
  register_function("doubled", doubled);
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 3);
  config.datasets["train"] = rows_from(10, 0);
  config.preprocessor = Chain{FunctionTransformer{"doubled"}, StandardScaler{{"x"}}};
  MinimalTrainer trainer{[](TrainContext&) {}, config};
  CHECK(trainer.fit().state == RunState::finished);
}

/// Called with the first rows that `watched` is given; null: nothing.
std::atomic<std::function<void()> const*> at_first_rows = nullptr;

auto watched(Dataset const& rows) -> Dataset {
  if (rows.rows() == 0) return rows;
  if (auto const* const work = at_first_rows.exchange(nullptr)) (*work)();
  return rows;
}

/// Counts the rows that a preprocessor changes.
std::atomic<std::size_t> changed_rows = 0;

auto counted(Dataset const& rows) -> Dataset {
  changed_rows += rows.rows();
  return rows;
}

/// The most rows that `widened` was given at once.
std::atomic<std::size_t> most_rows_at_once = 0;

/// Makes 8 KiB of each row.
auto widened(Dataset const& rows) -> Dataset {
  auto most = most_rows_at_once.load();
  while (most < rows.rows() && !most_rows_at_once.compare_exchange_weak(most, rows.rows())) continue;
  return rows.with_column({"wide", std::vector<double>(rows.rows() * 1'024), {1'024}});
}

TEST_CASE("rows that become wider are prepared in batches that what is made of them has room for") {
  register_function("widened", widened);
  for (auto const* const prepared : {"", "rows"}) {
    TemporaryFolder const folder;
    auto config = preparing_config(folder, 1);
    config.preprocessor = FunctionTransformer{"widened"};
    if (*prepared != '\0') config.data.prepared_folder = folder.path() / prepared;
    most_rows_at_once = 0;
    MinimalTrainer trainer{[](TrainContext& ctx) { CHECK(ctx.dataset_shard("train").dataset().rows() == 5'000); },
                           config};
    (void)trainer.fit();
    CHECK(most_rows_at_once > 1'000);
    CHECK(most_rows_at_once * 8'192 < (std::size_t{16} << 20U));
  }
}

/// A run with a folder for prepared rows; `counted` counts the rows that are prepared.
auto config_with_folder(TemporaryFolder const& folder, int workers) -> MinimalConfig {
  register_function("counted", counted);
  auto config = preparing_config(folder, workers);
  config.preprocessor = Chain{StandardScaler{{"x"}}, FunctionTransformer{"counted"}};
  config.data.prepared_folder = folder.path() / "rows";
  return config;
}

TEST_CASE("rows are prepared once into a folder, from which restarts and later starts map them") {
  TemporaryFolder const folder;
  auto config = config_with_folder(folder, 2);
  config.run.failure.max_failures = 1;
  std::mutex mutex;
  std::multiset<double> sums;
  auto const train = [&](TrainContext& ctx) {
    auto sum = 0.0;
    auto shard = ctx.dataset_shard("train");
    auto const values = shard.dataset().column("x").as<double>();
    for (auto const& batch : shard.batches({.batch_size = 500})) {
      for (std::size_t i = 0; i < batch.size(); ++i) sum += values[batch.row(i)];
    }
    {
      std::lock_guard const lock{mutex};
      sums.insert(sum);
    }
    ctx.barrier();
    if (ctx.attempt() == Attempt{}) throw std::runtime_error{"on purpose"};
  };
  changed_rows = 0;
  MinimalTrainer first{train, config};
  (void)first.fit();
  CHECK(changed_rows == 5'003);
  auto const mapped = open_dataset(config.data.prepared_folder / "train");
  CHECK(mapped.rows() == 5'000);
  MinimalTrainer second{train, config};
  (void)second.fit();
  CHECK(changed_rows == 5'003);

  auto in_memory = config_with_folder(folder, 2);
  in_memory.data.prepared_folder.clear();
  in_memory.run.name = "in memory";
  in_memory.run.failure.max_failures = 1;
  auto const from_files = std::exchange(sums, {});
  MinimalTrainer third{train, in_memory};
  (void)third.fit();
  CHECK(from_files.size() == 8);  // of two workers in two attempts of two starts
  CHECK(sums.size() == 4);
  for (auto const sum : sums) CHECK(from_files.count(sum) > 0);
}

TEST_CASE("rows that could not all be prepared are written anew, and a relative folder stays where it was") {
  TemporaryFolder const folder;
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  auto config = preparing_config(folder, 1);
  config.preprocessor = FunctionTransformer{"watched"};
  config.data.prepared_folder = "rows";
  register_function("watched", watched);
  std::function<void()> const fail = [] { throw std::runtime_error{"on purpose"}; };
  at_first_rows = &fail;
  MinimalTrainer first{[](TrainContext&) {}, config};
  MinimalTrainer second{[](TrainContext&) {}, config};
  std::filesystem::current_path(before);
  contains(message_of([&] { (void)first.fit(); }), "on purpose");
  CHECK(second.fit().state == RunState::finished);
  CHECK(open_dataset(folder.path() / "rows" / "train").rows() == 5'000);
}

TEST_CASE("rows that cannot be prepared into a folder are told by their numbers in the dataset") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 1);
  config.datasets = {{"train", rows_from(1'000'000, 0)}};
  register_function("refuses 999,999", [](Dataset const& rows) -> Dataset {
    auto const values = rows.column("x").as<double>();
    if (std::ranges::find(values, 999'999) != values.end()) throw std::runtime_error{"on purpose"};
    return rows;
  });
  config.preprocessor = FunctionTransformer{"refuses 999,999"};
  config.data.prepared_folder = folder.path() / "rows";
  MinimalTrainer trainer{[](TrainContext&) {}, config};
  auto const message = message_of([&] { (void)trainer.fit(); });
  contains(message, " to 999999: map_batches, rows ");
  CHECK(message.find("of rows 0 to") == std::string::npos);
}

TEST_CASE("prepared rows of other rows, or by another preprocessor, are refused") {
  TemporaryFolder const folder;
  auto const config = config_with_folder(folder, 2);
  MinimalTrainer first{[](TrainContext&) {}, config};
  (void)first.fit();
  auto const refused = [&](MinimalConfig changed) {
    changed.run.name = "another";
    changed.run.failure.max_failures = 3;
    MinimalTrainer trainer{[](TrainContext&) {}, std::move(changed)};
    return message_of([&] { (void)trainer.fit(); });
  };
  auto other_rows = config;
  other_rows.datasets["valid"] = rows_from(3, 2'499);
  contains(refused(other_rows), "preparing the dataset 'valid': materialize into '");
  contains(refused(other_rows), "it holds the rows of another source");
  auto other_preprocessor = config;
  other_preprocessor.preprocessor = StandardScaler{{"x"}};
  contains(refused(other_preprocessor), "it holds the rows of another source");
}

/// Asks for a stop when a worker waits for the lock of a folder that another one holds.
class StopWhileWaiting : public raytrain::Callback {
 public:
  explicit StopWhileWaiting(std::filesystem::path lock) : lock_{std::move(lock)} {}

  void on_start(raytrain::RunInfo const& run) override { request_stop_ = run.request_stop; }
  void on_worker_start(raytrain::Started const&) override {
    auto const last = std::chrono::steady_clock::now() + std::chrono::seconds{30};  // where it never waits
    while (times_opened() < 2 && std::chrono::steady_clock::now() < last) std::this_thread::yield();
    request_stop_();
  }

 private:
  /// By this process.
  [[nodiscard]] auto times_opened() const -> int {
    auto times = 0;
    for (auto const& file : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      std::error_code ignored;
      if (std::filesystem::read_symlink(file, ignored) == lock_) ++times;
    }
    return times;
  }

  std::filesystem::path lock_;
  std::function<void()> request_stop_;
};

TEST_CASE("a run that waits for rows that another one writes stops when it is told to") {
  TemporaryFolder const folder;
  std::promise<void> writes;
  std::promise<void> may_go_on;
  std::function<void()> const wait = [&] {
    writes.set_value();
    may_go_on.get_future().wait();
  };
  at_first_rows = &wait;
  register_function("watched", watched);
  auto config = preparing_config(folder, 1);
  config.preprocessor = FunctionTransformer{"watched"};
  config.data.prepared_folder = folder.path() / "rows";
  std::thread writer{[&] {
    auto writing = config;
    writing.run.name = "writes";
    MinimalTrainer trainer{[](TrainContext&) {}, writing};
    (void)trainer.fit();
  }};
  writes.get_future().wait();
  config.run.name = "waits";
  config.callbacks = {std::make_shared<StopWhileWaiting>(config.data.prepared_folder / "train/raytrain_dataset.lock")};
  MinimalTrainer trainer{[](TrainContext&) {}, config};
  CHECK(trainer.fit().state == RunState::aborted);
  may_go_on.set_value();
  writer.join();
}

TEST_CASE("a folder for prepared rows without a preprocessor, or for a name that none can have, is refused at once") {
  auto const refused = [](MinimalConfig config) {
    config.data.prepared_folder = "rows";
    return message_of([&] { MinimalTrainer const trainer{epochs_up_to(1), std::move(config)}; });
  };
  contains(refused({.datasets = {{"train", rows_from(3, 0)}}}),
           "DataConfig::prepared_folder: is set, and there is no preprocessor");
  for (auto const* const name : {"a/b", "..", "."}) {
    contains(refused({.datasets = {{"train", rows_from(3, 0)}, {name, rows_from(3, 0)}},
                      .preprocessor = StandardScaler{{"x"}}}),
             "DataConfig::prepared_folder: the dataset '" + std::string{name} + "' cannot name a folder");
  }
}

TEST_CASE("one that is fitted already changes the datasets as it is, without a dataset \"train\"") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  AnyPreprocessor scaler{StandardScaler{{"x"}}};
  scaler.fit(rows_from(5'000, 0));
  config.preprocessor = scaler;
  config.datasets.erase("train");
  config.data.datasets_to_split = {};
  Seen seen;
  MinimalTrainer trainer{[&](TrainContext& ctx) { seen.add(ctx); }, config};
  (void)trainer.fit();
  CHECK(seen.first_valid_values == std::set<double>{0});
}

TEST_CASE("a run goes on within an epoch of what its preprocessor makes") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  config.run.failure.max_failures = 1;
  std::mutex mutex;
  std::multiset<double> taken;
  auto const train = [&](TrainContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    auto const epoch = ctx.restore(shard);
    for (auto const& batch : shard.batches({.batch_size = 500, .epoch = epoch})) {
      {
        std::lock_guard const lock{mutex};
        auto const column = shard.dataset().column("x").as<double>();
        for (std::size_t i = 0; i < batch.size(); ++i) taken.insert(column[batch.row(i)]);
      }
      ctx.report(Epoch{epoch, 1}, ctx.world_rank() == Rank{0} ? draft("a batch") : CheckpointDraft{});
      ctx.barrier();
      if (ctx.attempt() == Attempt{} && shard.position().samples == 2'000) throw std::runtime_error{"on purpose"};
    }
  };
  config.run.checkpoint.mode = CheckpointMode::sync;
  MinimalTrainer trainer{train, config};
  (void)trainer.fit();
  CHECK(taken.size() == 5'000);
  CHECK(std::set<double>(taken.begin(), taken.end()).size() == 5'000);
}

TEST_CASE("what a preprocessor refuses ends the run at once, with its text, and is not tried again") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  config.run.failure.max_failures = 3;
  config.preprocessor = StandardScaler{{"y"}};
  auto attempts = 0;
  MinimalTrainer trainer{[&](TrainContext& ctx) { attempts = static_cast<int>(ctx.attempt().value); }, config};
  contains(message_of([&] { (void)trainer.fit(); }),
           "TrainerConfig::preprocessor: column 'y': is not in the dataset, which has x");
  CHECK(attempts == 0);
}

TEST_CASE("a dataset that lacks a column is named") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  config.datasets["test"] = Dataset::from_columns({{"z", std::vector<float>{1, 2}}});
  MinimalTrainer trainer{epochs_up_to(1), config};
  contains(message_of([&] { (void)trainer.fit(); }), "preparing the dataset 'test': ");
}

TEST_CASE("a preprocessor without rows to learn from is refused before anything starts") {
  auto const refused = [](MinimalConfig config) {
    return message_of([&] { MinimalTrainer const trainer{epochs_up_to(1), std::move(config)}; });
  };
  contains(refused({.preprocessor = StandardScaler{{"x"}}}),
           "TrainerConfig::preprocessor: is set and has not learnt yet, and there are no datasets");
  contains(refused({.datasets = {{"all", rows_from(3, 0)}}, .preprocessor = StandardScaler{{"x"}}}),
           "learns from the dataset 'train', and there are all");
}

TEST_CASE("a program without a preprocessor asks for it in vain") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 1);
  config.preprocessor = {};
  MinimalTrainer trainer{[](TrainContext& ctx) { (void)ctx.preprocessor(); }, config};
  contains(message_of([&] { (void)trainer.fit(); }), "TrainContext::preprocessor: the run has none");
}

}  // namespace
