// SPDX-License-Identifier: Apache-2.0
// A user's program with LightGBM: a model that learns which numbers are larger than others.
#include <cstdio>
#include <vector>

#include <raytrain/backend/lightgbm/lightgbm_booster.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/data/dataset.hpp>

auto main() -> int {
  std::vector<float> x;
  std::vector<float> y;
  for (int i = 0; i < 100; ++i) {
    x.push_back(static_cast<float>(i));
    y.push_back(i < 50 ? 0 : 1);
  }
  auto const data = raytrain::Dataset::from_columns({{"x", x}, {"y", y}});
  raytrain::LightGBMDataset const train{data, {.label = "y", .params = {{"verbosity", "0"}}}};
  raytrain::LightGBMBooster booster{train, {{"objective", "binary"}, {"verbosity", "0"}}};
  for (int round = 0; round < 10; ++round) booster.update();
  auto const values = booster.predict(data, {.label = "y"}).values;
  std::printf("%.2f for the smallest and %.2f for the largest\n", values.front(), values.back());
  return values.front() < 0.3F && values.back() > 0.7F ? 0 : 1;
}
