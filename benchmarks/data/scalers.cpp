// SPDX-License-Identifier: Apache-2.0
// CPU time in which scalers learn from a float32 matrix, and of one pass that only adds it up:  scalers FILE ROWS TURNS
//
// The matrix is written to FILE as well, in NumPy's format.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/npy.hpp>
#include <raytrain/preprocess/min_max_scaler.hpp>
#include <raytrain/preprocess/robust_scaler.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "turns.hpp"

namespace {

constexpr std::size_t width = 16;

/// Sums of numbers from 0 to 1, which are about normal, around another mean in each column.
auto make_matrix(std::size_t rows) -> std::vector<float> {
  std::vector<float> values(rows * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const sum = random_at(3 * i) + random_at(3 * i + 1) + random_at(3 * i + 2);
    values[i] = static_cast<float>(static_cast<double>(1 + i % width) * (sum - 1));
  }
  return values;
}

/// Adds up in so many independent sums that it waits for memory, not for sums.
auto add_up(std::span<float const> values) -> float {
  constexpr std::size_t lanes = 4 * width;
  std::array<float, lanes> sums{};
  auto const whole = values.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += values[i + lane];
  }
  auto sum = 0.0F;
  for (auto const each : sums) sum += each;
  for (auto i = whole; i < values.size(); ++i) sum += values[i];
  return sum;
}

/// The values of one column, in ascending order.
auto sorted_column(std::span<float const> values, std::size_t column) -> std::vector<double> {
  std::vector<double> sorted;
  for (auto i = column; i < values.size(); i += width) sorted.push_back(static_cast<double>(values[i]));
  std::ranges::sort(sorted);
  return sorted;
}

void check(double found, double wanted, std::string const& what) {
  if (std::abs(found - wanted) <= 1e-6 * std::max(1.0, std::abs(wanted))) return;
  throw std::runtime_error{fmt::format("{} is {}, and was found to be {}", what, wanted, found)};
}

/// What is learnt of the first column and the last one.
void check(std::span<float const> values, raytrain::StandardScaler const& standard,
           raytrain::MinMaxScaler const& min_max, raytrain::RobustScaler const& robust) {
  for (auto const column : {std::size_t{0}, width - 1}) {
    auto const sorted = sorted_column(values, column);
    auto const rows = static_cast<double>(sorted.size());
    double mean = 0;
    for (auto const value : sorted) mean += value / rows;
    double variance = 0;
    for (auto const value : sorted) variance += (value - mean) * (value - mean) / rows;
    auto const quantile = [&](double at) {
      auto const place = at * (rows - 1);
      auto const below = static_cast<std::size_t>(place);
      auto const above = std::min(below + 1, sorted.size() - 1);
      return std::lerp(sorted[below], sorted[above], place - std::floor(place));
    };
    auto const& standard_scale = standard.scales.at("x");
    check(standard_scale.shift[column], mean, "the mean");
    check(standard_scale.scale[column], std::sqrt(variance), "the deviation");
    auto const& min_max_scale = min_max.scales.at("x");
    check(min_max_scale.shift[column], sorted.front(), "the minimum");
    check(min_max_scale.scale[column], sorted.back() - sorted.front(), "the range");
    auto const& robust_scale = robust.scales.at("x");
    check(robust_scale.shift[column], quantile(0.5), "the median");
    check(robust_scale.scale[column], quantile(0.75) - quantile(0.25), "the distance of the quartiles");
  }
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 4) throw std::invalid_argument{"arguments: FILE ROWS TURNS"};
  auto const data = raytrain::Dataset::from_columns({{"x", make_matrix(std::stoul(argv[2])), {width}}});
  auto const values = data.column("x").as<float>();
  raytrain::write_npy(data.column("x"), argv[1]);
  double total = 0;
  for (auto const value : values) total += static_cast<double>(value);
  std::map<std::string, std::vector<double>> times;
  raytrain::StandardScaler standard{.columns = {"x"}};
  raytrain::MinMaxScaler min_max{.columns = {"x"}};
  raytrain::RobustScaler robust{.columns = {"x"}};
  for (int turn = 0; turn < std::stoi(argv[3]); ++turn) {
    auto sum = 0.0F;
    times["pass"].push_back(time_ms(cpu_ms, [&] { sum = add_up(values); }));
    if (std::abs(static_cast<double>(sum) / total - 1) > 1e-3) throw std::runtime_error{"the sum is wrong"};
    times["standard"].push_back(time_ms(cpu_ms, [&] { standard.fit(data); }));
    times["min_max"].push_back(time_ms(cpu_ms, [&] { min_max.fit(data); }));
    times["robust"].push_back(time_ms(cpu_ms, [&] { robust.fit(data); }));
  }
  check(values, standard, min_max, robust);
  fmt::print("{{\"bytes\": {}, \"pass_ms\": {}, \"standard_ms\": {}, \"min_max_ms\": {}, \"robust_ms\": {}}}\n",
             values.size_bytes(), median(times["pass"]), median(times["standard"]), median(times["min_max"]),
             median(times["robust"]));
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "scalers: %s\n", error.what());
  return 1;
}
