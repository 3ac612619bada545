// SPDX-License-Identifier: Apache-2.0
// A user's program with Arrow: a Parquet and an Arrow file are written and read.
#include <cstdio>
#include <vector>

#include <raytrain/data/arrow.hpp>
#include <raytrain/data/parquet.hpp>

auto main() -> int {
  auto const rows = raytrain::Dataset::from_columns({{"x", std::vector{1.0F, 2.0F}}});
  raytrain::write_parquet(rows, "x.parquet");
  auto const again = raytrain::read_parquet("x.parquet");
  raytrain::write_arrow(again, "x.arrow");
  auto const once_more = raytrain::read_arrow("x.arrow");
  std::printf("%zu rows\n", once_more.rows());
  return once_more.digest() == rows.digest() ? 0 : 1;
}
