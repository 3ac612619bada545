// SPDX-License-Identifier: Apache-2.0
// How rows get from a file of CSV to XGBoost: read into memory, block by block, or block by block into files that are
// mapped. Arguments: write FILE ROWS, or memory|blocks|mapped FILE ROUNDS FOLDER.
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

struct Figures {
  std::size_t rows = 0;
  double fed_s = 0;  ///< From the file to XGBoost's matrix.
  double loss = 0;
  std::string model;  ///< A digest of it.
};

auto train(std::string const& held, std::filesystem::path const& file, int rounds, std::filesystem::path const& folder)
    -> Figures {
  Figures figures;
  raytrain::XGBoostParams const params{.label = "target",
                                       .objective = job::objective,
                                       .eval_metric = {job::metric},
                                       .max_depth = job::max_depth,
                                       .max_bin = job::max_bin};
  auto const begin_s = job::now_s();
  raytrain::Datasets datasets;
  if (held == "memory") datasets.emplace("train", raytrain::read_csv(file));
  if (held == "mapped") datasets.emplace("train", raytrain::materialize(folder / "rows", raytrain::csv_blocks(file)));
  raytrain::Trainer<raytrain::XGBoostBackend> trainer{
      [&](raytrain::XGBoostContext& ctx) {
        raytrain::DMatrixOptions const options{.label = "target", .max_bin = job::max_bin};
        auto const matrix = held == "blocks" ? ctx.dmatrix([&] { return raytrain::csv_blocks(file); }, options)
                                             : ctx.dmatrix("train", options);
        figures.fed_s = job::now_s() - begin_s;
        figures.rows = matrix.rows();
        auto booster = ctx.booster(params, {&matrix});
        for (int round = 0; round < rounds; ++round) booster.update(round, matrix);
        figures.loss = booster.evaluate(rounds, {{"train", &matrix}}).front().value;
        figures.model = raytrain::detail::xxh3_of(booster.to_bytes());
      },
      {.scaling = {.num_workers = 1, .resources_per_worker = {.cpus = 2}},
       .run = {.name = "feeding", .storage_path = folder, .resume = raytrain::Resume::fresh},
       .datasets = std::move(datasets)}};
  trainer.fit();
  return figures;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  std::string const what = argc > 1 ? argv[1] : "";
  if (what == "write" && argc == 4) {
    write(argv[2], std::stoul(argv[3]));
    std::printf("{}\n");
    return 0;
  }
  if (argc != 5)
    throw std::invalid_argument{"usage: feeding write FILE ROWS, or memory|blocks|mapped FILE ROUNDS FOLDER"};
  auto const figures = train(what, argv[2], std::atoi(argv[3]), argv[4]);
  std::printf("{\"rows_per_s\": %.1f, \"peak_mib\": %.2f, \"loss\": %.9f, \"model\": \"%s\"}\n",
              static_cast<double>(figures.rows) / figures.fed_s, peak_mib(), figures.loss, figures.model.c_str());
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "feeding: %s\n", error.what());
  return 1;
}
