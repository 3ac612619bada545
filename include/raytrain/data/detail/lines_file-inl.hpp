// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/lines_file.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto LinesFile::takes(Dataset const& block) const -> bool {
  if (!block.columns().empty()) return true;
  if (has_begun_ && block.rows() == 0) return false;
  throw Error{Errc::invalid_data, attempted_, "the dataset has no column", "add one"};
}

RAYTRAIN_INLINE auto LinesFile::columns_of(Dataset const& block) -> std::vector<Column> {
  if (!std::exchange(has_begun_, true)) first_columns_ = without_rows(block);
  if (auto const differences = column_differences(first_columns_, block); !differences.empty()) {
    throw Error{Errc::invalid_data, attempted_,
                fmt::format("a block has other columns than the first one: {}", fmt::join(differences, ", ")),
                fmt::format("give all blocks the same {}", alike_)};
  }
  std::vector<Column> columns;
  for (auto const* const column : columns_as_in(first_columns_, block)) columns.push_back(*column);
  return columns;
}

RAYTRAIN_INLINE void LinesFile::end_line() {
  text_ += '\n';
  constexpr std::size_t piece_bytes = std::size_t{1} << 18U;
  if (text_.size() < piece_bytes) return;
  file_.write(text_);
  text_.clear();
}

RAYTRAIN_INLINE void LinesFile::finish() {
  if (!has_begun_) throw Error{Errc::invalid_data, attempted_, "there is no block", "look at their source"};
  file_.write(text_);
  file_.finish();
}

}  // namespace raytrain::detail
