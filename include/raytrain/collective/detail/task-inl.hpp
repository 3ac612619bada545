// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto to_string(CallTag const& tag) -> std::string {
  auto const number = std::to_string(tag.number);
  auto const part = std::to_string(tag.part);
  auto const model = "model " + std::to_string(tag.model);
  auto const reached =
      " (after " + std::to_string(tag.samples) + " samples of epoch " + std::to_string(tag.epoch) + ")";
  switch (tag.of) {
    case CallOf::program: break;
    case CallOf::preparation: return " to prepare " + (tag.part == 0 ? model : "optimizer " + part + " of " + model);
    case CallOf::backward: return " for backward " + number + " of " + model + reached;
    case CallOf::layer: return " for forward " + number + " of SyncBatchNorm " + part + " of " + model + reached;
    case CallOf::step: return " for step " + number + " of optimizer " + part + " of " + model;
    case CallOf::loader: return " to make data loader " + number;
    case CallOf::join: return " for join() " + number;
  }
  return {};
}

RAYTRAIN_INLINE auto operation_text(Call const& call) -> std::string {
  auto const array = std::to_string(call.count) + " x " + std::string{to_string(call.element)};
  auto const op = std::string{to_string(call.op)};
  auto const root = "root " + std::to_string(call.root.value);
  switch (call.operation) {
    case Operation::barrier: return "barrier()";
    case Operation::all_reduce: return "all_reduce(" + array + ", " + op + ")";
    case Operation::broadcast: return "broadcast(" + array + ", " + root + ")";
    case Operation::all_gather: return "all_gather(" + array + ")";
    case Operation::reduce_scatter: return "reduce_scatter(" + array + ", " + op + ")";
    case Operation::reduce: return "reduce(" + array + ", " + op + ", " + root + ")";
    case Operation::gather: return "gather(" + array + ", " + root + ")";
    case Operation::scatter: return "scatter(" + array + ", " + root + ")";
    case Operation::all_gatherv: return "all_gatherv(" + array + ")";
    case Operation::duplicate: return "duplicate()";
  }
  return "unknown";
}

RAYTRAIN_INLINE auto to_string(Call const& call) -> std::string { return operation_text(call) + to_string(call.tag); }

}  // namespace raytrain::detail
