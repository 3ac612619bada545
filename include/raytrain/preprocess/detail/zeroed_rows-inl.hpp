// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/pages.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/detail/zeroed_rows.hpp>

namespace raytrain::detail {

[[nodiscard]] inline auto zeros(std::size_t rows, std::size_t row_bytes) -> std::shared_ptr<float> {
  if (rows > 0 && row_bytes > std::numeric_limits<std::size_t>::max() / rows) throw std::bad_alloc{};
  auto const bytes = rows * row_bytes;
  if (bytes >= huge_page_bytes) return std::static_pointer_cast<float>(allocate_pages(bytes));
  auto const owner = std::make_shared<std::vector<float>>(bytes / sizeof(float));
  return {owner, owner->data()};
}

RAYTRAIN_INLINE ZeroedRows::ZeroedRows(std::size_t rows, std::size_t width)
    : rows_{rows}, width_{width}, memory_{zeros(rows, array_bytes<float>(width))} {}

RAYTRAIN_INLINE auto ZeroedRows::take(std::string name) && -> Column {
  return {ColumnFormat{std::move(name), ElementType::float32, {width_}},
          {memory_, reinterpret_cast<std::byte const*>(memory_.get())},
          rows_};
}

}  // namespace raytrain::detail
