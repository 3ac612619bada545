// SPDX-License-Identifier: Apache-2.0
// Reads the table of numbers, texts and missing values that csv.cpp writes, fills, scales and encodes it, and goes
// through it once in shuffled batches:  pipeline MIXED ROWS
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset_shard.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/concatenator.hpp>
#include <raytrain/preprocess/one_hot_encoder.hpp>
#include <raytrain/preprocess/simple_imputer.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "turns.hpp"

namespace {

constexpr std::size_t batch_size = 256;

/// What a program that trains on the batches would look at.
struct Sums {
  std::size_t rows = 0;
  double values = 0;
  double squares = 0;
};

auto sums_of_pipeline(std::string const& path) -> Sums {
  using raytrain::ImputeStrategy;
  std::vector<std::string> const numbers{"customer", "count", "price", "weight", "rating"};
  std::vector<std::string> const texts{"paid", "city"};
  std::vector<std::string> all = numbers;
  all.insert(all.end(), texts.begin(), texts.end());
  raytrain::Chain chain{raytrain::SimpleImputer{{"weight", "rating"}, ImputeStrategy::mean},
                        raytrain::SimpleImputer{{"city"}, ImputeStrategy::most_frequent},
                        raytrain::StandardScaler{numbers}, raytrain::OneHotEncoder{texts}, raytrain::Concatenator{all}};
  raytrain::AnyPreprocessor preprocessor{std::move(chain)};
  raytrain::DatasetShard shard{preprocessor.fit_transform(raytrain::read_csv(path)), {}};
  auto const width = shard.dataset().column("features").row_shape().at(0);
  std::vector<float> features(batch_size * width);
  Sums sums;
  for (auto const batch : shard.batches({.batch_size = batch_size, .epoch = 0})) {
    auto const values = std::span{features}.first(batch.size() * width);
    batch.gather("features", values);
    sums.rows += batch.size();
    for (double const value : values) {
      sums.values += value;
      sums.squares += value * value;
    }
  }
  return sums;
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 3) throw std::invalid_argument{"arguments: MIXED ROWS"};
  auto const rows = std::stod(argv[2]);
  Sums sums;
  auto const wall = time_ms(wall_ms, [&] { sums = sums_of_pipeline(argv[1]); });
  // Five scaled columns have mean 0 and variance 1, and of two encoded ones a row has a single 1 each.
  auto const is_right = static_cast<double>(sums.rows) == rows && std::abs(sums.values / rows - 2) < 1e-3 &&
                        std::abs(sums.squares / rows - 7) < 1e-3;
  if (!is_right) {
    throw std::runtime_error{
        fmt::format("{} rows gave the sum {} and the squares {}", sums.rows, sums.values, sums.squares)};
  }
  fmt::print("{{\"wall_ms\": {}}}\n", wall);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "pipeline: %s\n", error.what());
  return 1;
}
