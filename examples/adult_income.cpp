// Tells who earns more than 50,000 from a table with texts, gaps and categories, by a network or by XGBoost: what
// prepares the columns learns from the training rows, goes into each checkpoint, and comes back with the predictor.
// Run ./examples/run adult_income, with --backend xgboost or --ranks 2, and expect an accuracy of 80 % or more on rows
// that were held out, which the predictor takes as they lie in the file.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/backend/torch.hpp>
#ifdef WITH_XGBOOST
#include <raytrain/backend/xgboost.hpp>
#endif
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/train_test_split.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/preprocess.hpp>
#include <raytrain/trainer.hpp>

#include "adult_income/model.hpp"
#include "adult_income/network.hpp"

namespace {

using raytrain::Column;
using raytrain::Dataset;

struct Options {
  std::string backend = "torch";
  int rows = 20'000;
  int workers = 0;
  int epochs = 5;
  std::filesystem::path storage = "runs";
  std::filesystem::path predictions = "adult_income_predictions.csv";
  bool fresh = false;
};

/// The columns of the census data that the literature calls Adult, drawn by a recipe: income grows with age up to 50,
/// with education, hours and self-employment, and with chance. A twentieth of ages, hours and classes of work is
/// missing.
auto drawn_people(std::size_t rows) -> Dataset {
  constexpr std::array classes{"Private", "Self-employed", "Government"};
  constexpr std::array schools{"School", "College", "Bachelors", "Masters", "Doctorate"};
  std::mt19937_64 random{20'240'131};
  auto const share = [&] { return static_cast<double>(random() >> 11U) * 0x1p-53; };  // from 0 to 1
  auto const is_gap = [&] { return share() < 0.05; };
  auto const gap = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> age, hours;
  std::vector<std::optional<std::string>> work, education, income;
  for (std::size_t row = 0; row < rows; ++row) {
    auto const years = std::floor(18 + 52 * share());
    auto const week = std::floor(20 + 40 * share());
    auto const school = random() % schools.size();
    auto const employer = random() % classes.size();
    auto const score = 0.08 * (std::min(years, 50.0) - 38) + 0.06 * (week - 40) + 0.9 * static_cast<double>(school) -
                       2.0 + (employer == 1 ? 0.8 : 0);
    income.emplace_back(share() < 1 / (1 + std::exp(-1.5 * score)) ? ">50K" : "<=50K");
    age.push_back(is_gap() ? gap : static_cast<float>(years));
    hours.push_back(is_gap() ? gap : static_cast<float>(week));
    work.push_back(is_gap() ? std::nullopt : std::optional<std::string>{classes[employer]});
    education.emplace_back(schools[school]);
  }
  return Dataset::from_columns({{"age", age},
                                Column::of_texts("workclass", work),
                                Column::of_texts("education", education),
                                {"hours", hours},
                                Column::of_texts("income", income)});
}

/// Gaps filled, numbers scaled, texts encoded, and all of them in one column "features"; the label 0 or 1.
auto preparation() -> raytrain::Chain {
  using namespace raytrain;
  return Chain{SimpleImputer{{"age", "hours"}, ImputeStrategy::median},
               SimpleImputer{{"workclass"}, ImputeStrategy::most_frequent},
               StandardScaler{{"age", "hours"}},
               OneHotEncoder{{"workclass", "education"}},
               Concatenator{{"age", "hours", "workclass", "education"}},
               LabelEncoder{"income"}};
}

struct Epoch {
  int epoch = 0;
  double loss = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(loss)); }
};

// `epochs` is the Trainer's second argument: of any type, and the same for every worker.
void train_network(raytrain::TorchContext& ctx, int const& epochs) {
  auto shard = ctx.dataset_shard("train");
  auto model = ctx.prepare_model([&] { return Net{features_of(shard.dataset())}; });
  torch::optim::Adam optimizer{model->parameters(), 5e-3};
  for (int epoch = ctx.restore(model, optimizer); epoch < epochs; ++epoch) {
    double sum = 0;
    std::int64_t rows = 0;
    for (auto batch : shard.batches({.batch_size = 128, .epoch = epoch})) {
      optimizer.zero_grad();
      auto const loss =
          torch::binary_cross_entropy_with_logits(model->forward(batch["features"]), batch["income"].to(torch::kFloat));
      loss.backward();
      optimizer.step();
      sum += loss.item<double>() * static_cast<double>(batch.size());
      rows += batch.size();
    }
    ctx.report(Epoch{epoch, ctx.average(sum / static_cast<double>(rows), rows)}, raytrain::save(model, optimizer));
  }
}

template <class Backend>
auto config_of(Options const& options, Dataset const& train) -> raytrain::TrainerConfig<Backend> {
  auto const job = raytrain::job_environment();
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : 2;
  return {.scaling = {.num_workers = workers},
          .run = {.name = fmt::format("adult_income_{}_{}", options.backend, options.rows),
                  .storage_path = options.storage,
                  .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic},
          .datasets = {{"train", train}},
          .preprocessor = preparation(),
          .callbacks = {std::make_shared<raytrain::ProgressBar>()}};
}

auto by_network(Options const& options, Dataset const& train) -> Predict {
  raytrain::Trainer<raytrain::TorchBackend> trainer{train_network, options.epochs,
                                                    config_of<raytrain::TorchBackend>(options, train)};
  auto const result = trainer.fit();
  if (result.state == raytrain::RunState::aborted) return {};
  return predict_by(result.checkpoint().value());
}

auto by_trees([[maybe_unused]] Options const& options, [[maybe_unused]] Dataset const& train) -> Predict {
#ifdef WITH_XGBOOST
  raytrain::XGBoostParams const params{.label = "income",
                                       .objective = "binary:logistic",
                                       .eval_metric = {"logloss"},
                                       .max_depth = 4,
                                       .num_boost_round = 30};
  raytrain::Trainer<raytrain::XGBoostBackend> trainer{params, config_of<raytrain::XGBoostBackend>(options, train)};
  auto const result = trainer.fit();
  if (result.state == raytrain::RunState::aborted) return {};
  return predict_by(result.checkpoint().value());
#else
  throw std::runtime_error{"--backend xgboost: this program was built without XGBoost; install libxgboost-dev"};
#endif
}

auto run(Options const& options) -> int {
  std::filesystem::create_directories(options.storage);
  auto const file = options.storage / "adult_income.csv";
  raytrain::write_csv(drawn_people(static_cast<std::size_t>(options.rows)), file);
  auto const people = raytrain::read_csv(file);
  auto const [train, test] = raytrain::train_test_split(people, 0.2, {.stratify = "income"});

  auto const predict = options.backend == "torch" ? by_network(options, train) : by_trees(options, train);
  if (!predict) return 75;  // stopped: run again, it goes on
  auto const rows = test.drop_columns({"income"});
  auto const said = predict(rows);
  std::size_t right = 0;
  for (std::size_t row = 0; row < test.rows(); ++row) {
    right += (said[row] > 0.5F) == (test.column("income").text(row) == ">50K") ? 1 : 0;
  }
  auto const accuracy = static_cast<double>(right) / static_cast<double>(test.rows());
  if (raytrain::is_first_of_job()) {
    raytrain::write_csv(rows.add_column({"prediction", said}), options.predictions);
    fmt::print("\n{} of {} held-out rows are right ({:.1f} %)\npredictions      {}\n", right, test.rows(),
               100 * accuracy, options.predictions.string());
  }
  return accuracy > 0.8 ? 0 : 1;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Tells who earns more than 50,000. Run again, it goes on from its newest checkpoint."};
  app.option_defaults()->always_capture_default();
  app.add_option("--backend", options.backend, "what learns: a network or trees")
      ->check(CLI::IsMember({"torch", "xgboost"}));
  app.add_option("--rows", options.rows, "people that are drawn, a fifth of them held out")
      ->check(CLI::Range(100, 100'000'000));
  app.add_option("--workers", options.workers,
                 "threads that work together, ScalingConfig::num_workers; 0: 2, or the ranks of the job")
      ->check(CLI::NonNegativeNumber);
  auto* const epochs =
      app.add_option("--epochs", options.epochs, "times that the network sees all rows")->check(CLI::PositiveNumber);
  app.add_option("--storage", options.storage, "folder for the table, and for the run's reports and checkpoints");
  app.add_option("--predictions", options.predictions, "file for the held-out rows and what the model says of them");
  app.add_flag("--fresh", options.fresh, "delete the run that is there, and start anew: Resume::fresh");
  CLI11_PARSE(app, argc, argv);
  try {
    if (epochs->count() > 0 && options.backend != "torch") {
      throw std::invalid_argument{"--epochs needs --backend torch"};
    }
    return run(options);
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
