// SPDX-License-Identifier: Apache-2.0
// How rows get from a file of CSV to XGBoost or LightGBM: read into memory, block by block, or block by block into
// files that are mapped. Arguments: libraries, write FILE ROWS, or xgboost|lightgbm memory|blocks|mapped FILE ROUNDS
// FOLDER.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#ifdef WITH_LIGHTGBM
#include <raytrain/backend/lightgbm.hpp>
#endif
#include <raytrain/backend/xgboost.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/materialize.hpp>
#include <raytrain/data/write_csv.hpp>
#include <raytrain/trainer.hpp>

#include "job.hpp"

namespace {

using raytrain::Dataset;

void write(std::string const& file, std::size_t count) {
  auto const rows = job::generate(count);
  std::vector<raytrain::Column> columns;
  for (std::size_t i = 0; i < job::width; ++i) {
    std::vector<float> values(count);
    for (std::size_t row = 0; row < count; ++row) values[row] = rows.features[row * job::width + i];
    columns.emplace_back(fmt::format("x_{}", i), std::move(values));
  }
  columns.emplace_back("target", rows.labels);
  write_csv(Dataset::from_columns(std::move(columns)), file);
}

struct Job {
  std::string held;  ///< memory, blocks or mapped.
  std::filesystem::path file;
  int rounds = 0;
  std::filesystem::path folder;
};

struct Figures {
  std::size_t rows = 0;
  double fed_s = 0;  ///< From the file to the library's own form of the rows.
  double loss = 0;
  std::string model;  ///< A digest of it.
};

/// `boost(ctx, figures)` notes when it has been fed.
template <class Backend, class Boost>
auto train(Job const& what, Boost const& boost) -> Figures {
  Figures figures;
  auto const begin_s = job::now_s();
  raytrain::Datasets datasets;
  if (what.held == "memory") datasets.emplace("train", raytrain::read_csv(what.file));
  if (what.held == "mapped")
    datasets.emplace("train", raytrain::materialize(what.folder / "rows", raytrain::csv_blocks(what.file)));
  raytrain::Trainer<Backend> trainer{
      [&](typename Backend::Context& ctx) {
        boost(ctx, figures);
        figures.fed_s -= begin_s;
      },
      {.scaling = {.num_workers = 1, .resources_per_worker = {.cpus = 2}},
       .run = {.name = "feeding", .storage_path = what.folder, .resume = raytrain::Resume::fresh},
       .datasets = std::move(datasets)}};
  trainer.fit();
  return figures;
}

auto train_by_xgboost(Job const& what) -> Figures {
  raytrain::XGBoostParams const params{.label = "target",
                                       .objective = job::objective,
                                       .eval_metric = {job::metric},
                                       .max_depth = job::max_depth,
                                       .max_bin = job::max_bin};
  return train<raytrain::XGBoostBackend>(what, [&](raytrain::XGBoostContext& ctx, Figures& figures) {
    raytrain::DMatrixOptions const options{.label = "target", .max_bin = job::max_bin};
    auto const matrix = what.held == "blocks" ? ctx.dmatrix([&] { return raytrain::csv_blocks(what.file); }, options)
                                              : ctx.dmatrix("train", options);
    figures.fed_s = job::now_s();
    figures.rows = matrix.rows();
    auto booster = ctx.booster(params, {&matrix});
    for (int round = 0; round < what.rounds; ++round) booster.update(round, matrix);
    figures.loss = booster.evaluate(what.rounds, {{"train", &matrix}}).front().value;
    figures.model = raytrain::detail::xxh3_of(booster.to_bytes());
  });
}

#ifdef WITH_LIGHTGBM
auto train_by_lightgbm(Job const& what) -> Figures {
  raytrain::LightGBMParams const params{.label = "target",
                                        .objective = "binary",
                                        .metric = {"binary_logloss"},
                                        .num_leaves = 1 << job::max_depth,
                                        .max_depth = job::max_depth,
                                        .learning_rate = 0.3};
  return train<raytrain::LightGBMBackend>(what, [&](raytrain::LightGBMContext& ctx, Figures& figures) {
    auto const dataset = what.held == "blocks" ? ctx.dataset([&] { return raytrain::csv_blocks(what.file); }, params)
                                               : ctx.dataset("train", params);
    figures.fed_s = job::now_s();
    figures.rows = dataset.rows();
    auto booster = ctx.booster(params, dataset);
    for (int round = 0; round < what.rounds; ++round) booster.update();
    figures.loss = booster.evaluate().front().value;
    figures.model = raytrain::detail::xxh3_of(raytrain::bytes_of(booster.to_text()));
  });
}
#endif

auto train_by(std::string const& library, Job const& what) -> Figures {
#ifdef WITH_LIGHTGBM
  if (library == "lightgbm") return train_by_lightgbm(what);
#endif
  if (library == "xgboost") return train_by_xgboost(what);
  throw std::invalid_argument{"this program was built without " + library};
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  std::string const what = argc > 1 ? argv[1] : "";
  if (what == "write" && argc == 4) {
    write(argv[2], std::stoul(argv[3]));
    std::printf("{}\n");
    return 0;
  }
  if (what == "libraries" && argc == 2) {
#ifdef WITH_LIGHTGBM
    std::printf("{\"libraries\": [\"xgboost\", \"lightgbm\"]}\n");
#else
    std::printf("{\"libraries\": [\"xgboost\"]}\n");
#endif
    return 0;
  }
  if (argc != 6) {
    throw std::invalid_argument{
        "usage: feeding libraries, or write FILE ROWS, or xgboost|lightgbm memory|blocks|mapped FILE ROUNDS FOLDER"};
  }
  auto const figures = train_by(what, {argv[2], argv[3], std::atoi(argv[4]), argv[5]});
  std::printf("{\"rows_per_s\": %.1f, \"peak_mib\": %.2f, \"loss\": %.9f, \"model\": \"%s\"}\n",
              static_cast<double>(figures.rows) / figures.fed_s, peak_mib(), figures.loss, figures.model.c_str());
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "feeding: %s\n", error.what());
  return 1;
}
