// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// Rows whose size the compiler knows: one load and one store each.
template <std::size_t row_bytes>
void gather_fixed_rows(std::byte const* from, std::span<std::uint64_t const> rows, std::byte* to) noexcept {
  for (auto const row : rows) {
    std::memcpy(to, from + row * row_bytes, row_bytes);
    to += row_bytes;
  }
}

/// Copies the column's row `rows[i]` to `to`, as its i-th one.
void gather_rows(Column const& column, std::span<std::uint64_t const> rows, std::byte* to) noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/gather_rows-inl.hpp>
#endif
