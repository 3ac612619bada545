// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

enum class Operation : std::uint8_t { barrier, all_reduce, broadcast, all_gather, reduce_scatter };

/// What must be equal on every rank of an operation. Fields that the operation has no use for keep their defaults.
struct Call {
  Operation operation = Operation::barrier;
  ElementType element{};
  ReduceOp op{};
  Rank root{};
  std::uint64_t count = 0;  ///< Elements of the array that is as long on every rank: for all_gather, what a rank sends.
  friend auto operator==(Call const&, Call const&) -> bool = default;
};

/// "all_reduce(1000 x float32, sum)", "broadcast(10 x int32, root 1)", "barrier()".
[[nodiscard]] inline auto to_string(Call const& call) -> std::string {
  auto const array = std::to_string(call.count) + " x " + std::string{to_string(call.element)};
  auto const op = std::string{to_string(call.op)};
  switch (call.operation) {
    case Operation::barrier: return "barrier()";
    case Operation::all_reduce: return "all_reduce(" + array + ", " + op + ")";
    case Operation::broadcast: return "broadcast(" + array + ", root " + std::to_string(call.root.value) + ")";
    case Operation::all_gather: return "all_gather(" + array + ")";
    case Operation::reduce_scatter: return "reduce_scatter(" + array + ", " + op + ")";
  }
  return "unknown";
}

}  // namespace raytrain::detail
