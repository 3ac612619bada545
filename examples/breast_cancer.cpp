// Tells malignant tumours from benign ones by XGBoost or LightGBM: 569 patients, 30 numbers each.
// Run ./examples/run breast_cancer, on threads, ./examples/run breast_cancer --ranks 2, or one of them with --backend
// lightgbm, and expect an accuracy of 94 % or more on the rows that were held out.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#ifdef WITH_LIGHTGBM
#include <raytrain/backend/lightgbm.hpp>
#include <raytrain/backend/lightgbm/lightgbm_predictor.hpp>
#endif
#include <raytrain/backend/xgboost.hpp>
#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/train_test_split.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

namespace {

struct Options {
  std::string backend = "xgboost";
  std::filesystem::path data = "breast_cancer.csv";
  int workers = 0;
  int rounds = 20;
  bool distributed = false;
  bool processes = false;
  std::uint64_t seed = 0;
  std::filesystem::path storage = "runs";
  std::filesystem::path model;
  std::filesystem::path predictions{};
  bool fresh = false;
};

// The file's first line has the numbers of rows and columns, and the names of the two classes.
auto read_patients(Options const& options) -> std::pair<raytrain::Dataset, raytrain::Dataset> {
  std::vector<std::string> names;
  for (std::string const kind : {"mean", "error", "worst"}) {
    for (std::string const feature : {"radius", "texture", "perimeter", "area", "smoothness", "compactness",
                                      "concavity", "concave points", "symmetry", "fractal dimension"}) {
      names.push_back(kind + ' ' + feature);
    }
  }
  names.emplace_back("target");
  auto const patients = raytrain::read_csv(options.data, {.skip_lines = 1, .header = false, .column_names = names});
  return raytrain::train_test_split(patients, 0.3, {.seed = options.seed});
}

template <class Backend, class Predictor>
auto train_with(typename Backend::Params const& params, Options const& options) -> int {
  auto const [train, valid] = read_patients(options);
  auto const job = raytrain::job_environment();
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : 2;
  raytrain::Trainer<Backend> trainer{
      params,
      {.scaling = {.num_workers = workers,
                   .launch = options.processes ? raytrain::Launch::processes : raytrain::Launch::automatic},
       .run = {.name = fmt::format("breast_cancer_{}_{}", options.backend, options.seed),  // which rows are held out
               .storage_path = options.storage,
               .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic,
               .seed = options.seed},
       .datasets = {{"train", train}, {"valid", valid}},
       .callbacks = {std::make_shared<raytrain::ProgressBar>()},
       .backend = {.mode =
                       options.distributed ? raytrain::BoostingMode::distributed : raytrain::BoostingMode::automatic}}};
  auto const result = trainer.fit();
  if (result.state == raytrain::RunState::aborted) return 75;
  auto const checkpoint = result.checkpoint();
  if (!checkpoint) return 1;

  Predictor const predictor{*checkpoint};
  auto const predictions = predictor.predict(valid, {.label = "target"});
  auto const target = valid.column("target").as<float>();
  std::size_t right = 0;
  for (std::size_t row = 0; row < valid.rows(); ++row)
    right += (predictions.values[row] > 0.5F) == (target[row] > 0.5F) ? 1 : 0;
  auto const accuracy = static_cast<double>(right) / static_cast<double>(valid.rows());
  if (raytrain::is_first_of_job()) {
    auto const standard = options.backend == "xgboost" ? "breast_cancer.json" : "breast_cancer.txt";
    auto const model = options.model.empty() ? std::filesystem::path{standard} : options.model;
    predictor.save_model(model);
    if (!options.predictions.empty()) {
      auto const features = valid.drop_columns({"target"});
      raytrain::write_csv(features.add_column({"prediction", predictions.values}), options.predictions);
    }
    fmt::print("\n{} of {} held-out rows are right ({:.1f} %), AUC {:.4f}\nmodel            {}\n", right, valid.rows(),
               100 * accuracy, result.metrics.number("valid-auc").value_or(0), model.string());
    if (result.nothing_left)
      fmt::print("\nThis run is finished. --rounds N goes on with more of them; --fresh starts anew.\n");
  }
  return accuracy > 0.9 ? 0 : 1;
}

auto run(Options const& options) -> int {
  if (options.backend == "xgboost") {
    raytrain::XGBoostParams const params{.label = "target",
                                         .objective = "binary:logistic",
                                         .eval_metric = {"logloss", "auc"},
                                         .max_depth = 6,
                                         .num_boost_round = options.rounds};
    return train_with<raytrain::XGBoostBackend, raytrain::XGBoostPredictor>(params, options);
  }
#ifdef WITH_LIGHTGBM
  raytrain::LightGBMParams const params{.label = "target",
                                        .objective = "binary",
                                        .metric = {"binary_logloss", "auc"},
                                        .learning_rate = 0.3,
                                        .num_iterations = options.rounds};
  return train_with<raytrain::LightGBMBackend, raytrain::LightGBMPredictor>(params, options);
#else
  throw std::runtime_error{
      "--backend lightgbm: this program was built without LightGBM, which ./examples/run breast_cancer --backend "
      "lightgbm fetches with pip; or name its folder by meson configure build -Dlightgbm=PREFIX"};
#endif
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{
      "Tells malignant tumours from benign ones by boosted trees. Run again, it goes on from its newest checkpoint."};
  app.option_defaults()->always_capture_default();
  app.add_option("--backend", options.backend, "the library that boosts")
      ->check(CLI::IsMember({"xgboost", "lightgbm"}));
  app.add_option("--data", options.data, "scikit-learn's breast_cancer.csv");
  app.add_option("--workers", options.workers,
                 "threads that work together, ScalingConfig::num_workers; 0: 2, or the ranks of the job")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rounds", options.rounds, "trees to be grown, one in each")->check(CLI::PositiveNumber);
  app.add_flag("--distributed", options.distributed, "threads, too, add up histograms over the network, as ranks do");
  app.add_flag("--processes", options.processes, "workers are processes of this host, which work together as ranks do");
  app.add_option("--seed", options.seed, "of the rows that are held out");
  app.add_option("--storage", options.storage, "folder for the run's reports and checkpoints: RunConfig::storage_path");
  app.add_option(
      "--model", options.model,
      "file for the model, which the library reads in any language; empty: breast_cancer.json, LightGBM's .txt");
  app.add_option("--predictions", options.predictions, "file for the held-out rows and what the model says of them");
  app.add_flag("--fresh", options.fresh, "delete the run that is there, and start anew: Resume::fresh");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
