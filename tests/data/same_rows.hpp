// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::testing {

/// Checks that two datasets have the same columns and rows, bit by bit, and of texts the same categories.
inline void check_same_rows(Dataset const& one, Dataset const& other) {
  REQUIRE(one.rows() == other.rows());
  REQUIRE(one.column_names() == other.column_names());
  for (auto const& column : one.columns()) {
    auto const& same = other.column(column.name());
    CAPTURE(column.name());
    CHECK(same.describe() == column.describe());
    CHECK(std::ranges::equal(same.bytes(), column.bytes()));
    if (column.is_text()) CHECK(std::ranges::equal(same.categories(), column.categories()));
  }
}

}  // namespace raytrain::testing
