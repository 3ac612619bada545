// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string_view>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain {

namespace detail {

/// Errors: `invalid_data` for the unsigned types above a byte, of which not every LibTorch has tensors.
[[nodiscard]] auto torch_type(Column const& column) -> at::ScalarType;

}  // namespace detail

/// One worker's samples of one step, as tensors. Good for as long as the range it came from.
class TorchBatch {
 public:
  explicit TorchBatch(Batch const& rows) noexcept : rows_{rows} {}

  /// Samples; at least 1.
  [[nodiscard]] auto size() const noexcept -> std::int64_t { return static_cast<std::int64_t>(rows_.size()); }

  /// A column's rows in a new tensor of the column's own type: {size, 28, 28} bytes for images of 28 x 28 pixels.
  ///
  /// Errors: `not_found` when there is no such column, listing those that there are; `invalid_data` for unsigned types
  ///         above a byte.
  /// Cost:   one copy, straight from the dataset; asked for twice, two.
  [[nodiscard]] auto operator[](std::string_view column) const -> torch::Tensor;

  /// The rows behind the tensors.
  [[nodiscard]] auto rows() const noexcept -> Batch const& { return rows_; }

 private:
  Batch rows_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/torch_batch-inl.hpp>
#endif
