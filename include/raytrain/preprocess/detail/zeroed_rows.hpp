// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/pages.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// Zeros for so many rows. Large ones lie in huge pages: most of the time of an encoder would go into small ones.
///
/// Errors: `std::bad_alloc`.
[[nodiscard]] auto zeroed_bytes(std::size_t rows, std::size_t row_bytes) -> std::shared_ptr<std::byte>;

/// Rows of `width` zeros, which are changed before they are a column.
template <Element T = float>
class ZeroedRows {
 public:
  /// Errors: `std::bad_alloc`.
  ZeroedRows(std::size_t rows, std::size_t width)
      : rows_{rows}, width_{width}, memory_{zeroed_bytes(rows, array_bytes<T>(width))} {}

  [[nodiscard]] auto values() const noexcept -> std::span<T> {
    return {reinterpret_cast<T*>(memory_.get()), rows_ * width_};
  }

  /// A column of row shape {width}.
  [[nodiscard]] auto take(std::string name) && -> Column {
    return {ColumnFormat{std::move(name), element_type<T>, {width_}}, memory_, rows_};
  }

 private:
  std::size_t rows_;
  std::size_t width_;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/zeroed_rows-inl.hpp>
#endif
