// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>

#include "../data/column_values.hpp"

namespace raytrain::testing {

using Texts = std::vector<std::optional<std::string>>;

/// The texts of a column, "(none)" where one is missing.
[[nodiscard]] inline auto texts_of(Column const& column) -> std::vector<std::string> {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < column.rows(); ++row) texts.emplace_back(column.text(row).value_or("(none)"));
  return texts;
}

/// After JSON it is fitted still, makes the same of the rows, and gives the same JSON.
template <Preprocessor P>
void check_comes_back_from_json(P const& fitted, Dataset const& rows) {
  auto const back = preprocessor_from_json(to_json(fitted));
  REQUIRE(back.is_fitted());
  CHECK(to_json(back) == to_json(fitted));
  CHECK(back.transform(rows).digest() == fitted.transform(rows).digest());
}

}  // namespace raytrain::testing
