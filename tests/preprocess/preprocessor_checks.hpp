// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "fit_workers.hpp"

namespace raytrain::testing {

/// Of a missing value.
inline constexpr auto gap = std::numeric_limits<double>::quiet_NaN();

/// The column's values are these, up to `tolerance` of each, or of 1 for smaller ones; missing where those are.
inline void check_values(Column const& column, std::vector<double> const& expected, double tolerance = 1e-12) {
  column.visit([&]<Element T>(std::span<T const> values) {
    REQUIRE(values.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      auto const value = detail::as_double(values[i]);
      CAPTURE(value);
      CAPTURE(expected[i]);
      CHECK(std::isnan(value) == std::isnan(expected[i]));
      if (!std::isnan(expected[i])) {
        CHECK(std::abs(value - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
      }
    }
  });
}

/// Numbers above 0 of two places a row, a tenth of them missing, in as many rows as several blocks have.
inline auto random_rows() -> Dataset {
  std::mt19937_64 random{random_seed()};
  std::lognormal_distribution<double> numbers{1, 0.7};
  std::vector<double> values(2 * 9'013);
  for (auto& value : values) value = random() % 10 == 0 ? gap : numbers(random);
  return Dataset::from_columns({{"x", values, {2}}});
}

/// One program and any number of workers learn the same of the rows, bit by bit, and it comes back from JSON so, with
/// the settings by which it learns that again.
inline void check_learns_the_same(AnyPreprocessor const& preprocessor, Dataset const& dataset) {
  auto const learn = [&](FitRows const& rows) {
    auto learnt = preprocessor;
    learnt.fit(rows);
    return to_json(learnt);
  };
  auto const alone = learn(dataset);
  for (std::uint32_t const workers : {1, 2, 3, 7}) {
    CAPTURE(workers);
    for (auto const& of_worker : learnt_by_workers(dataset, workers, learn)) CHECK(of_worker == alone);
  }
  auto loaded = preprocessor_from_json(alone);
  CHECK(loaded.is_fitted());
  CHECK(to_json(loaded) == alone);
  loaded.fit(dataset);
  CHECK(to_json(loaded) == alone);
}

}  // namespace raytrain::testing
