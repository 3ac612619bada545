// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// NumPy's name of a type that XGBoost reads as it is; none of those that have to be converted.
[[nodiscard]] constexpr auto array_interface_type(ElementType type) noexcept -> std::optional<std::string_view> {
  switch (type) {
    case ElementType::float32: return "<f4";
    case ElementType::float64: return "<f8";
    case ElementType::int8: return "|i1";
    case ElementType::int16: return "<i2";
    case ElementType::int32: return "<i4";
    case ElementType::int64: return "<i8";
    case ElementType::uint8: return "|u1";
    case ElementType::uint16: return "<u2";
    case ElementType::uint32: return "<u4";
    case ElementType::uint64: return "<u8";
    case ElementType::float16:
    case ElementType::bfloat16: break;
  }
  return std::nullopt;
}

struct ArrayShape {
  std::size_t rows;
  std::size_t columns = 0;  ///< 0: a vector.
};

/// Memory as XGBoost is told of it.
///
/// Source: NumPy's array interface protocol, version 3, of which XGBoost reads these keys.
[[nodiscard]] inline auto array_interface(void const* data, std::string_view type, ArrayShape shape) -> std::string {
  auto const sizes =
      shape.columns == 0 ? fmt::format("[{}]", shape.rows) : fmt::format("[{}, {}]", shape.rows, shape.columns);
  return fmt::format(R"({{"data": [{}, true], "shape": {}, "typestr": "{}", "version": 3, "strides": null}})",
                     reinterpret_cast<std::uintptr_t>(data), sizes, type);
}

}  // namespace raytrain::detail
