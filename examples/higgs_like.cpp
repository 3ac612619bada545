// Boosts trees on generated data of any size, shaped like HIGGS, and says how many rounds a second.
// Run ./examples/run higgs_like --rows 1000000, on threads, with --ranks 2, or with --backend lightgbm, and expect an
// AUC of 0.89 for a million rows. With --stream they come block by block, and all are never in memory. --gpus 1 boosts
// on a GPU, where the library has CUDA.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#ifdef WITH_LIGHTGBM
#include <raytrain/backend/lightgbm.hpp>
#endif
#include <raytrain/backend/xgboost.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/datasets.hpp>
#include <raytrain/launch/job_environment.hpp>
#include <raytrain/trainer.hpp>

namespace {

struct Options {
  std::string backend = "xgboost";
  std::size_t rows = 100'000;
  int workers = 0;
  int rounds = 20;
  int depth = 6;
  double gpus = 0;
  bool distributed = false;
  bool stream = false;
  std::uint64_t seed = 0;
  std::filesystem::path storage = "runs";
};

// 28 columns: 21 of a standard normal distribution, every third of them its absolute value, and 7 that are the root of
// the sum of the squares of three of those each. The target is 1 where the 7, weighted with changing signs, a product
// of two of the 21 and noise add up to more than 0: on about half of the rows.
auto generate(std::size_t rows, std::uint64_t seed) -> raytrain::Dataset {
  constexpr std::size_t low = 21;
  constexpr std::size_t high = 7;
  constexpr std::size_t width = low + high;
  std::mt19937_64 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> features(rows * width);
  std::vector<std::uint8_t> target(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    auto* const x = features.data() + row * width;
    for (std::size_t i = 0; i < low; ++i) x[i] = i % 3 == 2 ? std::abs(normal(random)) : normal(random);
    auto score = x[0] * x[4] + 0.5F * normal(random);
    for (std::size_t i = 0; i < high; ++i) {
      x[low + i] = std::hypot(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
      score += (i % 2 == 0 ? 1.0F : -1.0F) * (x[low + i] - 1.6F) / static_cast<float>(i + 1);
    }
    target[row] = score > 0 ? 1 : 0;
  }
  return raytrain::Dataset::from_columns({{"x", std::move(features), {width}}, {"target", std::move(target)}});
}

/// Those for evaluation, and those to train on unless they come in blocks.
auto datasets_of(Options const& options) -> raytrain::Datasets {
  raytrain::Datasets datasets{{"valid", generate(options.rows / 10 + 1, options.seed + 1)}};
  if (!options.stream) datasets.emplace("train", generate(options.rows, options.seed));
  return datasets;
}

/// `training`: the parameters of a ready-made training, or a function.
template <class Backend>
auto train_with(auto const& training, Options const& options) -> int {
  auto const job = raytrain::job_environment();
  auto const on_threads = options.gpus > 0 ? 1 : 2;
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : on_threads;
  raytrain::Trainer<Backend> trainer{
      training,
      {.scaling = {.num_workers = workers, .resources_per_worker = {.gpus = options.gpus}, .use_gpu = options.gpus > 0},
       .run = {.name = "higgs_like",
               .storage_path = options.storage,
               .resume = raytrain::Resume::fresh,
               .seed = options.seed},
       .data = {.datasets_to_split = options.stream ? std::vector<std::string>{} : std::vector<std::string>{"train"}},
       .datasets = datasets_of(options),
       .callbacks = {std::make_shared<raytrain::ProgressBar>()},
       .backend = {.mode =
                       options.distributed ? raytrain::BoostingMode::distributed : raytrain::BoostingMode::automatic}}};
  auto const result = trainer.fit();
  if (result.state == raytrain::RunState::aborted) return 130;  // stopped: not 75, since the next start begins anew
  auto const auc = result.metrics.number("valid-auc").value_or(0);
  if (raytrain::is_first_of_job()) {
    auto const first = result.history.front().time_total_s;
    auto const others = result.history.back().time_total_s - first;
    fmt::print("\n{} rows: {:.2f} s to the end of the first round, then {:.2f} rounds/s; AUC {:.4f}\n", options.rows,
               first, (options.rounds - 1) / others, auc);
  }
  return auc > 0.7 ? 0 : 1;
}

/// The rows in blocks, which are drawn anew each time that they are asked for.
auto blocks_of(std::size_t rows, std::uint64_t seed) -> raytrain::DatasetBlocks {
  constexpr std::size_t block_rows = 65'536;
  return {fmt::format("{} rows drawn by {}", rows, seed),
          [=, left = rows, block = std::uint64_t{0}]() mutable -> std::optional<raytrain::Dataset> {
            if (left == 0) return std::nullopt;
            auto const size = std::min(left, block_rows);
            left -= size;
            return generate(size, (seed << 32U) + ++block);
          }};
}

/// Each worker's own rows, in blocks.
auto own_blocks(raytrain::BoostingContext& ctx, Options const& options) -> raytrain::MakeBlocks {
  auto const rows = options.rows / ctx.world_size().value;
  auto const seed = options.seed + 2 + ctx.world_rank().value;
  return [=] { return blocks_of(rows, seed); };
}

/// Of the rows that come block by block XGBoost keeps the bins.
void train_on_stream(raytrain::XGBoostContext& ctx, raytrain::XGBoostParams const& params, Options const& options) {
  auto const train = ctx.dmatrix(own_blocks(ctx, options), {.label = params.label});
  auto const valid = ctx.dmatrix("valid", {.label = params.label});
  auto booster = ctx.booster(params, {&train, &valid});
  for (auto round = booster.rounds(); round < params.num_boost_round; ++round) {
    ctx.together([&] { booster.update(round, train); });
    raytrain::Metrics metrics;
    auto const evaluations = ctx.together([&] { return booster.evaluate(round, {{"valid", &valid}}); });
    for (auto const& [name, value] : evaluations) metrics.set(name, value);
    ctx.report(metrics, save(booster));
  }
}

#ifdef WITH_LIGHTGBM
/// So does LightGBM.
void train_on_stream(raytrain::LightGBMContext& ctx, raytrain::LightGBMParams const& params, Options const& options) {
  auto const train = ctx.dataset(own_blocks(ctx, options), params);
  auto const valid = ctx.dataset("valid", params, &train);
  auto booster = ctx.booster(params, train, {{"valid", &valid}});
  for (auto round = booster.rounds(); round < params.num_iterations; ++round) {
    ctx.together([&] { booster.update(); });
    raytrain::Metrics metrics;
    for (auto const& [name, value] : ctx.evaluate(booster)) metrics.set(name, value);
    ctx.report(metrics, save(booster));
  }
}
#endif

/// Trains as the parameters say: on rows in memory, or in blocks.
template <class Backend>
auto train(typename Backend::Params const& params, Options const& options) -> int {
  if (!options.stream) return train_with<Backend>(params, options);
  return train_with<Backend>([&](typename Backend::Context& ctx) { train_on_stream(ctx, params, options); }, options);
}

auto run(Options const& options) -> int {
  if (options.backend == "xgboost") {
    raytrain::XGBoostParams const params{.label = "target",
                                         .objective = "binary:logistic",
                                         .eval_metric = {"logloss", "auc"},
                                         .max_depth = options.depth,
                                         .num_boost_round = options.rounds};
    return train<raytrain::XGBoostBackend>(params, options);
  }
#ifdef WITH_LIGHTGBM
  raytrain::LightGBMParams const params{.label = "target",
                                        .objective = "binary",
                                        .metric = {"binary_logloss", "auc"},
                                        .num_leaves = 1 << std::min(options.depth, 12),
                                        .max_depth = options.depth,
                                        .learning_rate = 0.3,
                                        .num_iterations = options.rounds};
  return train<raytrain::LightGBMBackend>(params, options);
#else
  throw std::runtime_error{
      "--backend lightgbm: this program was built without LightGBM, which ./examples/run higgs_like --backend "
      "lightgbm fetches with pip; or name its folder by meson configure build -Dlightgbm=PREFIX"};
#endif
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Boosts trees on generated data of any size."};
  app.option_defaults()->always_capture_default();
  app.add_option("--backend", options.backend, "the library that boosts")
      ->check(CLI::IsMember({"xgboost", "lightgbm"}));
  app.add_option("--rows", options.rows, "to be generated for training, and a tenth of that for evaluation")
      ->check(CLI::Range(1000, 1'000'000'000));
  app.add_option(
         "--workers", options.workers,
         "threads that work together, ScalingConfig::num_workers; 0: 2, or 1 with --gpus, or the ranks of the job")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--gpus", options.gpus, "of each worker, for a library with CUDA: ScalingConfig::use_gpu; 0: the CPU")
      ->check(CLI::Range(0.0, 64.0));
  app.add_option("--rounds", options.rounds, "trees to be grown, one in each")->check(CLI::Range(2, 1'000'000));
  app.add_option("--depth", options.depth, "of a tree, at most")->check(CLI::PositiveNumber);
  app.add_flag("--distributed", options.distributed, "threads, too, add up histograms over the network, as ranks do");
  app.add_flag("--stream", options.stream, "hand the rows to the library block by block, and keep none of them");
  app.add_option("--seed", options.seed, "of the data");
  app.add_option("--storage", options.storage, "folder for the run's reports and checkpoints: RunConfig::storage_path");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
