// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/detail/piece_counts.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_holds_text(Column const& column, std::string const& attempted) {
  if (column.is_text()) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' holds {} and no text", column.name(), column.type_name()),
              "name a column of text; read_csv makes text of a column by CsvType::text"};
}

}  // namespace raytrain::detail
