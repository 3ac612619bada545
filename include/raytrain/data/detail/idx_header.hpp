// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/detail/data_file.hpp>

namespace raytrain::detail {

/// What an IDX file says of itself.
struct IdxHeader {
  ElementType type = ElementType::uint8;
  std::vector<std::size_t> extents;  ///< The number of rows first.
  std::uint64_t header_bytes{};
  std::uint64_t data_bytes{};

  /// "60000 x 28 x 28 of uint8".
  [[nodiscard]] auto describe() const -> std::string;
};

[[nodiscard]] auto big_endian_32(std::byte const* at) noexcept -> std::uint32_t;

[[nodiscard]] constexpr auto idx_element_type(std::byte code) noexcept -> std::optional<ElementType> {
  switch (std::to_integer<int>(code)) {
    case 0x08: return ElementType::uint8;
    case 0x09: return ElementType::int8;
    case 0x0b: return ElementType::int16;
    case 0x0c: return ElementType::int32;
    case 0x0d: return ElementType::float32;
    case 0x0e: return ElementType::float64;
    default: return std::nullopt;
  }
}

/// Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", the IDX file format.
[[nodiscard]] auto read_idx_header(DataFile& file) -> IdxHeader;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/idx_header-inl.hpp>
#endif
