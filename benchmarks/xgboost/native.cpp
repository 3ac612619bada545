// SPDX-License-Identifier: Apache-2.0
// The job as a program that calls XGBoost's C API by hand: one process, or one of several that XGBoost makes known to
// each other. Arguments: rows in all, rounds, threads, dmatrix|quantile, and of several processes the tracker's port
// (0: they exchange nothing), the rank and how many there are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <xgboost/c_api.h>

#include "job.hpp"

namespace {

struct Options {
  std::size_t rows = 0;
  int rounds = 0;
  std::string threads;
  bool quantile = false;
  int port = 0;
  std::size_t rank = 0;
  std::size_t world = 1;
};

void check(int status) {
  if (status != 0) throw std::runtime_error{XGBGetLastError()};
}

auto array_interface(float const* data, std::size_t rows, std::size_t columns) -> std::string {
  auto const shape = std::to_string(rows) + (columns == 0 ? "" : ", " + std::to_string(columns));
  return R"({"data": [)" + std::to_string(reinterpret_cast<std::uintptr_t>(data)) + R"(, true], "shape": [)" + shape +
         R"(], "typestr": "<f4", "version": 3, "strides": null})";
}

/// This rank's part of all rows.
auto part_of(job::Rows const& all, Options const& options) -> job::Rows {
  auto const total = all.labels.size();
  auto const first = static_cast<std::ptrdiff_t>(total * options.rank / options.world);
  auto const last = static_cast<std::ptrdiff_t>(total * (options.rank + 1) / options.world);
  constexpr auto width = static_cast<std::ptrdiff_t>(job::width);
  return {{all.features.begin() + first * width, all.features.begin() + last * width},
          {all.labels.begin() + first, all.labels.begin() + last}};
}

/// Hands all rows to XGBoost at once, each time it asks for them.
struct OneBatch {
  job::Rows const& rows;
  DMatrixHandle proxy = nullptr;
  bool given = false;
};

auto next(DataIterHandle handle) -> int {
  auto& batch = *static_cast<OneBatch*>(handle);
  if (std::exchange(batch.given, true)) return 0;
  auto const array = array_interface(batch.rows.features.data(), batch.rows.labels.size(), job::width);
  return XGProxyDMatrixSetDataDense(batch.proxy, array.c_str()) == 0 ? 1 : 0;
}

void reset(DataIterHandle handle) { static_cast<OneBatch*>(handle)->given = false; }

auto make_matrix(job::Rows const& rows, Options const& options) -> DMatrixHandle {
  auto const config =
      R"({"missing": NaN, "max_bin": )" + std::to_string(job::max_bin) + R"(, "nthread": )" + options.threads + '}';
  DMatrixHandle matrix = nullptr;
  if (options.quantile) {
    OneBatch batch{rows};
    check(XGProxyDMatrixCreate(&batch.proxy));
    check(XGQuantileDMatrixCreateFromCallback(&batch, batch.proxy, nullptr, &reset, &next, config.c_str(), &matrix));
    check(XGDMatrixFree(batch.proxy));
  } else {
    auto const array = array_interface(rows.features.data(), rows.labels.size(), job::width);
    check(XGDMatrixCreateFromDense(array.c_str(), config.c_str(), &matrix));
  }
  auto const labels = array_interface(rows.labels.data(), rows.labels.size(), 0);
  check(XGDMatrixSetInfoFromInterface(matrix, "label", labels.c_str()));
  return matrix;
}

auto make_booster(DMatrixHandle matrix, Options const& options) -> BoosterHandle {
  BoosterHandle booster = nullptr;
  check(XGBoosterCreate(&matrix, 1, &booster));
  std::vector<std::pair<char const*, std::string>> const parameters{
      {"objective", job::objective},
      {"eval_metric", job::metric},
      {"tree_method", "hist"},
      {"max_depth", std::to_string(job::max_depth)},
      {"max_bin", std::to_string(job::max_bin)},
      {"seed", std::to_string(job::seed)},
      {"nthread", options.threads},
  };
  for (auto const& [name, value] : parameters) check(XGBoosterSetParam(booster, name, value.c_str()));
  return booster;
}

void join_others(Options const& options) {
  auto const config = R"({"xgboost_communicator": "rabit", "DMLC_TRACKER_URI": "127.0.0.1", "DMLC_TRACKER_PORT": )" +
                      std::to_string(options.port) + R"(, "DMLC_TASK_ID": ")" + std::to_string(options.rank) +
                      R"(", "rabit_enable_tcp_no_delay": "true"})";
  check(XGCommunicatorInit(config.c_str()));
  if (XGCommunicatorGetWorldSize() != static_cast<int>(options.world)) throw std::runtime_error{"ranks are missing"};
}

auto train(Options const& options) -> job::Figures {
  auto rows = job::generate(options.rows);
  if (options.world > 1) rows = part_of(rows, options);

  job::Figures figures{.rounds = options.rounds};
  auto const begin_s = job::now_s();
  if (options.port > 0) join_others(options);
  auto* matrix = make_matrix(rows, options);
  rows = {};
  auto* const booster = make_booster(matrix, options);
  char const* name = "train";
  char const* text = nullptr;
  double first_s = 0;
  for (int round = 0; round < options.rounds; ++round) {
    check(XGBoosterUpdateOneIter(booster, round, matrix));
    check(XGBoosterEvalOneIter(booster, round, &matrix, &name, 1, &text));
    if (round > 0) continue;
    first_s = job::now_s();
    figures.exchange_s = -exchange_s();
  }
  figures.exchange_s += exchange_s();
  figures.after_first_s = job::now_s() - first_s;
  // "[9]\ttrain-logloss:0.4554"
  figures.loss = std::stod(std::string{text}.substr(std::string{text}.rfind(':') + 1));
  if (options.rank == 0) check(XGBoosterSaveModel(booster, "native.ubj"));
  figures.whole_s = job::now_s() - begin_s;
  check(XGBoosterFree(booster));
  check(XGDMatrixFree(matrix));
  if (options.port > 0) check(XGCommunicatorFinalize());
  return figures;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 5 && argc != 8) {
    throw std::invalid_argument{"usage: native ROWS ROUNDS THREADS dmatrix|quantile [PORT RANK WORLD]"};
  }
  Options options{std::stoul(argv[1]), std::atoi(argv[2]), argv[3], std::string{argv[4]} == "quantile"};
  if (argc == 8) {
    options.port = std::atoi(argv[5]);
    options.rank = std::stoul(argv[6]);
    options.world = std::stoul(argv[7]);
  }
  job::print(train(options));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "native: %s\n", error.what());
  return 1;
}
