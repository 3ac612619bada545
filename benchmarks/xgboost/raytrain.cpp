// SPDX-License-Identifier: Apache-2.0
// The job with raytrain: two workers that are threads, or under mpirun its ranks. Arguments: rows in all, rounds, how
// the rows are held and what is measured: table|columns|mapped (as a table, in a folder of the run's),
// ready|distributed|reports (the ready-made training, with one booster on threads or one for each worker, or what a
// report costs in its rounds), folder for the run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/trainer.hpp>

#include "job.hpp"

namespace {

using Trainer = raytrain::Trainer<raytrain::XGBoostBackend>;

constexpr int workers = 2;

struct Options {
  std::size_t rows = 0;
  int rounds = 0;
  std::string held;
  std::string training;
  std::string folder;
};

/// As one column of a row's features, or as a column for each feature, as files are read.
auto dataset(job::Rows rows, Options const& options) -> raytrain::Dataset {
  std::vector<raytrain::Column> columns;
  if (options.held == "columns") {
    for (std::size_t i = 0; i < job::width; ++i) {
      std::vector<float> values(rows.labels.size());
      for (std::size_t row = 0; row < values.size(); ++row) values[row] = rows.features[row * job::width + i];
      columns.emplace_back(fmt::format("x_{}", i), std::move(values));
    }
  } else {
    columns.emplace_back("x", std::move(rows.features), raytrain::RowShape{job::width});
  }
  columns.emplace_back("target", std::move(rows.labels));
  auto table = raytrain::Dataset::from_columns(std::move(columns));
  return options.held == "mapped" ? raytrain::materialize(options.folder + "/rows", {std::move(table)}) : table;
}

auto params(Options const& options) -> raytrain::XGBoostParams {
  return {.label = "target",
          .objective = job::objective,
          .eval_metric = {job::metric},
          .max_depth = job::max_depth,
          .max_bin = job::max_bin,
          .num_boost_round = options.rounds};
}

auto config(Options const& options, raytrain::Dataset rows) -> raytrain::TrainerConfig<raytrain::XGBoostBackend> {
  return {.scaling = {.num_workers = raytrain::job_environment() ? raytrain::WorkerCount{} : workers,
                      .resources_per_worker = {.cpus = 1}},
          .run = {.name = "job", .storage_path = options.folder, .resume = raytrain::Resume::fresh, .seed = job::seed},
          .datasets = {{"train", std::move(rows)}},
          .backend = {.mode = options.training == "distributed" ? raytrain::XGBoostMode::distributed
                                                                : raytrain::XGBoostMode::automatic}};
}

/// Notes what has been exchanged until the first round has ended, which is not the rounds'.
class FirstRound : public raytrain::Callback {
 public:
  void on_report(raytrain::Report const& report, raytrain::Metrics const&) override {
    if (report.rank == raytrain::Rank{0} && report.training_iteration == 1) exchange_s_ = exchange_s();
  }
  [[nodiscard]] auto exchange_until_then_s() const -> double { return exchange_s_; }

 private:
  double exchange_s_ = 0;
};

auto train(Options const& options) -> job::Figures {
  job::Figures figures{.rounds = options.rounds};
  auto const first_round = std::make_shared<FirstRound>();
  auto rows = job::generate(options.rows);
  auto const begin_held_s = job::now_s();
  auto settings = config(options, dataset(std::move(rows), options));
  figures.held_s = job::now_s() - begin_held_s;
  settings.callbacks = {first_round};
  Trainer trainer{params(options), std::move(settings)};
  auto const begin_s = job::now_s();
  auto const result = trainer.fit();
  figures.whole_s = job::now_s() - begin_s;
  figures.exchange_s = exchange_s() - first_round->exchange_until_then_s();
  std::vector<double> ends_s;
  for (auto const& report : result.history) ends_s.push_back(report.time_total_s);
  if (ends_s.size() != static_cast<std::size_t>(options.rounds)) throw std::runtime_error{"reports are missing"};
  figures.after_first_s = ends_s.back() - ends_s.front();
  figures.loss = result.metrics.number(fmt::format("train-{}", job::metric)).value();
  return figures;
}

/// What a report costs in each round, in percent: the ready-made training's rounds in a function that reports those of
/// every other block, so that both kinds are of one training.
auto cost_of_reports(Options const& options) -> double {
  constexpr int block_rounds = 10;
  auto settings = config(options, dataset(job::generate(options.rows), options));
  settings.scaling = {.num_workers = 1, .resources_per_worker = {.cpus = workers}};
  auto const boosted = params(options);
  std::vector<double> blocks_s;
  Trainer trainer{[&](raytrain::XGBoostContext& ctx) {
                    auto const matrix = ctx.dmatrix("train", {.label = boosted.label, .max_bin = boosted.max_bin});
                    auto booster = ctx.booster(boosted, {&matrix});
                    auto begin_s = job::now_s();
                    for (int round = 0; round < options.rounds; ++round) {
                      booster.update(round, matrix);
                      auto const loss = booster.evaluate(round, {{"train", &matrix}}).front();
                      if (round / block_rounds % 2 == 1) {
                        ctx.report(raytrain::Metrics{{"round", std::int64_t{round}}, {loss.name, loss.value}});
                      }
                      if ((round + 1) % block_rounds != 0) continue;
                      auto const end_s = job::now_s();
                      blocks_s.push_back(end_s - begin_s);
                      begin_s = end_s;
                    }
                  },
                  std::move(settings)};
  auto const result = trainer.fit();
  if (result.all_reports().size() != blocks_s.size() / 2 * block_rounds)
    throw std::runtime_error{"reports are missing"};
  // Against the silent blocks on both sides of it, since rounds become faster as trees become smaller.
  std::vector<double> percent;
  for (std::size_t i = 1; i + 1 < blocks_s.size(); i += 2) {
    percent.push_back(100 * (2 * blocks_s[i] / (blocks_s[i - 1] + blocks_s[i + 1]) - 1));
  }
  // The first round is not like the others.
  percent.erase(percent.begin());
  std::ranges::nth_element(percent, percent.begin() + static_cast<std::ptrdiff_t>(percent.size() / 2));
  return percent[percent.size() / 2];
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 6)
    throw std::invalid_argument{"usage: raytrain ROWS ROUNDS table|columns|mapped ready|distributed|reports FOLDER"};
  Options const options{std::stoul(argv[1]), std::atoi(argv[2]), argv[3], argv[4], argv[5]};
  if (options.training == "reports") {
    std::printf("{\"report_percent\": %.4f}\n", cost_of_reports(options));
    return 0;
  }
  auto const figures = train(options);
  if (raytrain::is_first_of_job()) job::print(figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "raytrain: %s\n", error.what());
  return 1;
}
