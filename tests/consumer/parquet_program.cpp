// SPDX-License-Identifier: Apache-2.0
// A user's program with Arrow: a Parquet file is written and read.
#include <cstdio>
#include <vector>

#include <raytrain/data/parquet.hpp>

auto main() -> int {
  auto const rows = raytrain::Dataset::from_columns({{"x", std::vector{1.0F, 2.0F}}});
  raytrain::write_parquet(rows, "x.parquet");
  auto const again = raytrain::read_parquet("x.parquet");
  std::printf("%zu rows\n", again.rows());
  return again.digest() == rows.digest() ? 0 : 1;
}
