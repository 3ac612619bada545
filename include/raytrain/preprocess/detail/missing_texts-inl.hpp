// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/preprocess/detail/missing_texts.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto with_missing_texts(Column const& column) -> Column {
  auto is_missing = false;
  if (!column.is_text() && column.row_values() == 1) {
    column.visit([&]<Element T>(std::span<T const> values) {
      is_missing = !std::is_integral_v<T> && std::ranges::all_of(values, [](T value) {
        auto const number = as_double(value);
        return number != number;
      });
    });
  }
  if (!is_missing) return column;
  auto const codes = std::make_shared<std::vector<std::int32_t> const>(column.rows(), -1);
  return {ColumnFormat{column.name(), ElementType::int32, {}, std::make_shared<std::vector<std::string> const>()},
          {codes, reinterpret_cast<std::byte const*>(codes->data())},
          codes->size()};
}

}  // namespace raytrain::detail
