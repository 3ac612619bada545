// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/detail/float_columns.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_row_values(Column const& column, std::size_t width, std::string const& attempted) {
  if (column.row_values() == width) return;
  throw Error{Errc::invalid_data, attempted,
              fmt::format("column '{}' has {} values a row, and had {} when it was learnt from", column.name(),
                          column.row_values(), width),
              "give it rows of the shape that fit was given"};
}

}  // namespace raytrain::detail
