// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <optional>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>

namespace raytrain::detail {

/// A reduction as NCCL calls it. An average is a sum here, to be divided: NCCL's own multiplies each float by 1/ranks.
struct NativeReduction {
  ncclDataType_t type{};
  ncclRedOp_t op{};
};

/// Nothing where NCCL's result would differ from what `Collective` promises in more than the order of values.
///
/// Source: NCCL 2.18 to 2.28, src/device/reduce_kernel.h.
[[nodiscard]] constexpr auto native_reduction(ElementType element, ReduceOp op) noexcept
    -> std::optional<NativeReduction> {
  auto const native = op == ReduceOp::min       ? ncclMin
                      : op == ReduceOp::max     ? ncclMax
                      : op == ReduceOp::product ? ncclProd
                                                : ncclSum;
  bool const picks = op == ReduceOp::min || op == ReduceOp::max;
  switch (element) {
    // NCCL's min and max of a number and a NaN are the number.
    case ElementType::float32: return picks ? std::nullopt : std::optional{NativeReduction{ncclFloat32, native}};
    case ElementType::float64: return picks ? std::nullopt : std::optional{NativeReduction{ncclFloat64, native}};
    case ElementType::int8: return NativeReduction{ncclInt8, native};
    case ElementType::uint8: return NativeReduction{ncclUint8, native};
    case ElementType::int32: return NativeReduction{ncclInt32, native};
    case ElementType::uint32: return NativeReduction{ncclUint32, native};
    case ElementType::int64: return NativeReduction{ncclInt64, native};
    case ElementType::uint64: return NativeReduction{ncclUint64, native};
    // It rounds to 16 bits after each rank, and has no integers of 16 bits.
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int16:
    case ElementType::uint16: break;
  }
  return std::nullopt;
}

}  // namespace raytrain::detail
