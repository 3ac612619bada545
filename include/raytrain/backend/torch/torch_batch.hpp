// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain {

namespace detail {

/// Errors: `invalid_data` for the unsigned types above a byte, of which not every LibTorch has tensors.
[[nodiscard]] inline auto torch_type(Column const& column) -> at::ScalarType {
  switch (column.type()) {
    case ElementType::float32: return at::ScalarType::Float;
    case ElementType::float64: return at::ScalarType::Double;
    case ElementType::int8: return at::ScalarType::Char;
    case ElementType::int16: return at::ScalarType::Short;
    case ElementType::int32: return at::ScalarType::Int;
    case ElementType::int64: return at::ScalarType::Long;
    case ElementType::uint8: return at::ScalarType::Byte;
    case ElementType::float16: return at::ScalarType::Half;
    case ElementType::bfloat16: return at::ScalarType::BFloat16;
    case ElementType::uint16:
    case ElementType::uint32:
    case ElementType::uint64: break;
  }
  throw Error{Errc::invalid_data, "a tensor of column " + column.describe(), "LibTorch has no tensors of that type",
              "store it in the next larger signed type"};
}

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
  [[nodiscard]] auto operator[](std::string_view column) const -> torch::Tensor {
    auto const& source = find_column(rows_.columns(), column);
    std::vector<std::int64_t> shape{size()};
    for (auto const extent : source.row_shape()) shape.push_back(static_cast<std::int64_t>(extent));
    auto tensor = torch::empty(shape, detail::torch_type(source));
    rows_.gather(source, std::span{static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
    return tensor;
  }

  /// The rows behind the tensors.
  [[nodiscard]] auto rows() const noexcept -> Batch const& { return rows_; }

 private:
  Batch rows_;
};

}  // namespace raytrain
