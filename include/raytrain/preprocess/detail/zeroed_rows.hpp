// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// Rows of `width` zeros, which are changed before they are a column. Large ones lie in huge pages: most of the time of
/// an encoder would go into small ones.
class ZeroedRows {
 public:
  /// Errors: `std::bad_alloc`.
  ZeroedRows(std::size_t rows, std::size_t width);

  [[nodiscard]] auto values() const noexcept -> std::span<float> { return {memory_.get(), rows_ * width_}; }

  /// A column of row shape {width}.
  [[nodiscard]] auto take(std::string name) && -> Column;

 private:
  std::size_t rows_;
  std::size_t width_;
  std::shared_ptr<float> memory_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/zeroed_rows-inl.hpp>
#endif
