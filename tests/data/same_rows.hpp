// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>

namespace raytrain::testing {

/// As a whole: a look at each byte takes longer than reading them, where tests are not optimized.
inline auto same_bytes(std::span<std::byte const> one, std::span<std::byte const> other) -> bool {
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

/// Checks that two datasets have the same columns and rows, bit by bit, and of texts the same categories.
inline void check_same_rows(Dataset const& one, Dataset const& other) {
  REQUIRE(one.rows() == other.rows());
  REQUIRE(one.column_names() == other.column_names());
  for (auto const& column : one.columns()) {
    auto const& same = other.column(column.name());
    CAPTURE(column.name());
    CHECK(same.describe() == column.describe());
    CHECK(same_bytes(same.bytes(), column.bytes()));
    if (column.is_text()) CHECK(std::ranges::equal(same.categories(), column.categories()));
  }
}

}  // namespace raytrain::testing
