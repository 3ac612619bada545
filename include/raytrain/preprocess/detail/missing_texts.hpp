// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// Missing texts of a column of floating point that are all NaN, which is what `read_csv` makes of a column of text
/// that is empty in a small file. Any other column as it is.
[[nodiscard]] auto with_missing_texts(Column const& column) -> Column;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/missing_texts-inl.hpp>
#endif
